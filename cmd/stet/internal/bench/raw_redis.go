package bench

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/redis/rueidis"
)

// rawRedis writes rows into hashes, one for each run: the field is the path. The rows
// of a commit are HSETs in one pipeline.
type rawRedis struct {
	rawRows
	ctx    context.Context // of the measurement
	client rueidis.Client
	keys   []string
}

func openRawRedis(ctx context.Context, url string) (rawDriver, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	option.DisableCache, option.DisableRetry, option.PipelineMultiplex = true, true, -1
	t := &rawRedis{ctx: ctx, rawRows: newRawRows()}
	if t.client, err = rueidis.NewClient(option); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *rawRedis) close() error {
	defer t.client.Close()
	ctx := context.WithoutCancel(t.ctx)
	for _, key := range t.keys {
		if err := t.client.Do(ctx, t.client.B().Unlink().Key(key).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

func (t *rawRedis) commitRows(n int) error {
	commands := make(rueidis.Commands, n)
	for i := range commands {
		path := t.next()
		key := "stet_bench_raw:" + string(t.run[:])
		if len(t.keys) == 0 || t.keys[len(t.keys)-1] != key {
			t.keys = append(t.keys, key)
		}
		row := binary.AppendVarint(append([]byte(nil), t.value...), int64(t.rows))
		row = binary.AppendVarint(binary.AppendVarint(row, 1), int64(t.rows)<<20)
		commands[i] = t.client.B().Hset().Key(key).FieldValue().FieldValue(path, rueidis.BinaryString(row)).Build()
	}
	for _, result := range t.client.DoMulti(t.ctx, commands...) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
	}
	return nil
}
