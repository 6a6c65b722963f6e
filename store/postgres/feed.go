package postgres

import (
	"context"

	"github.com/stet-run/stet/store"
)

// Feeds implements store.Store.
func (s *Store) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	value := "NULL::bytea"
	if q.Values {
		value = "f.val"
	}
	var feeds []store.Feed
	err := s.single(ctx, "read feeds", func(t *tx) error {
		return t.each("SELECT f.run_no, f.stream, f.name, f.last, f.dropped, f.at, coalesce(length(f.val), 0), "+value+`
			FROM stet.feeds f
			WHERE f.run_no = ANY($1::bigint[]) AND ($2::text='' OR f.name=$2::text) ORDER BY f.run_no, f.stream, f.name`,
			[]any{numbers(q.Runs), name(q.Name)}, func(scan func(...any) error) error {
				var f store.Feed
				err := scan((*int64)(&f.Run), &f.Stream, &f.Name, &f.Last, &f.Dropped, (*int64)(&f.At), &f.Size, &f.Value)
				feeds = append(feeds, f)
				return err
			})
	})
	return feeds, err
}

// numbers returns numbers as the driver knows them; never nil, which would be
// NULL.
func numbers[N ~int64 | ~int | ~uint8](list []N) []int64 {
	out := make([]int64, len(list))
	for i, n := range list {
		out[i] = int64(n)
	}
	return out
}

// Stream implements store.Store.
func (s *Store) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	limit, err := q.Bounds()
	if err != nil {
		return nil, err
	}
	var items []store.StreamItem
	err = s.single(ctx, "read a stream", func(t *tx) error {
		// The sum drops items that an answer has no room for before they are sent.
		return t.each(`SELECT pos, at, rewound, val FROM (
				SELECT pos, at, rewound, val, sum(coalesce(length(val), 0)) OVER (ORDER BY pos) AS size,
					row_number() OVER (ORDER BY pos) AS place FROM (
					SELECT pos, at, rewound, val FROM stet.streams WHERE run_no=$1 AND name=$2 AND pos>$3
						ORDER BY pos LIMIT $4) page) sized
			WHERE size<=$5 OR place=1 ORDER BY pos`,
			[]any{q.Run, name(q.Name), q.After, limit, int64(store.MaxStreamRead)}, func(scan func(...any) error) error {
				var it store.StreamItem
				err := scan(&it.Pos, (*int64)(&it.At), &it.Rewound, &it.Value)
				items = append(items, it)
				return err
			})
	})
	return items, err
}
