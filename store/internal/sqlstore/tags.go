package sqlstore

import (
	"errors"
	"slices"

	"github.com/stet-run/stet/store"
)

// setTags changes the tags of a run.
func setTags(s Statements, turn *store.Turn) error {
	if len(turn.Tags) == 0 {
		return nil
	}
	former, err := readTags(s, turn.Run)
	if errors.Is(err, store.ErrDamaged) {
		return refuse("the tags of the run cannot be read")
	}
	if err != nil {
		return err
	}
	tags := store.MergeTags(former, turn.Tags)
	if _, err := s.Exec("UPDATE stet.runs SET tags=$1 WHERE run_no=$2", EncodeTags(tags), int64(turn.Run)); err != nil {
		return err
	}
	return retag(s, turn.Run, former, tags)
}

func readTags(s Statements, no store.RunNo) ([]store.Pair, error) {
	var stored []byte
	if _, err := s.Row("SELECT tags FROM stet.runs WHERE run_no=$1", []any{int64(no)}, &stored); err != nil {
		return nil, err
	}
	return DecodeTags(stored)
}

// retag makes the rows of the table tags those of a run's tags.
func retag(s Statements, no store.RunNo, former, tags []store.Pair) error {
	for _, tag := range former {
		if slices.Contains(tags, tag) {
			continue
		}
		if _, err := s.Exec("DELETE FROM stet.tags WHERE key=$1 AND value=$2 AND tagged=$3",
			tag.Key, tag.Value, int64(no)); err != nil {
			return err
		}
	}
	for _, tag := range tags {
		if slices.Contains(former, tag) {
			continue
		}
		if _, err := s.Exec("INSERT INTO stet.tags (key, value, tagged) VALUES ($1,$2,$3)",
			tag.Key, tag.Value, int64(no)); err != nil {
			return err
		}
	}
	return nil
}
