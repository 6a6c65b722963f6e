package sqlstore

import (
	"encoding/json"
	"fmt"

	"github.com/stet-run/stet/store"
)

// EncodeOrigin returns the stored form of an origin: the seed, the hash of the input,
// and the workflow.
func EncodeOrigin(o *store.Origin) []byte {
	return append(append(o.Seed[:len(o.Seed):len(o.Seed)], o.Input[:]...), o.Workflow...)
}

// DecodeOrigin is the inverse of EncodeOrigin; NULL gives the zero origin.
func DecodeOrigin(data []byte) (o store.Origin) {
	if len(data) >= len(o.Seed)+len(o.Input) {
		n := copy(o.Seed[:], data)
		n += copy(o.Input[:], data[n:])
		o.Workflow = string(data[n:])
	}
	return o
}

// EncodeTags returns the stored form of tags: a JSON array in which keys and values
// alternate, nil for no tags.
func EncodeTags(tags []store.Pair) []byte {
	if len(tags) == 0 {
		return nil
	}
	texts := make([]string, 0, 2*len(tags))
	for _, tag := range tags {
		texts = append(texts, tag.Key, tag.Value)
	}
	data, _ := json.Marshal(texts) // strings always encode
	return data
}

// ReadTags sets the tags of a run. Tags that cannot be read are damage of that run: the
// others are read as they are.
func ReadTags(r *store.Run, data []byte) {
	var err error
	if r.Tags, err = DecodeTags(data); err != nil {
		r.Damage = fmt.Sprintf("its tags cannot be read: %.100q", data)
	}
}

// DecodeTags is the inverse of EncodeTags. The error wraps store.ErrDamaged.
func DecodeTags(data []byte) ([]store.Pair, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var texts []string
	if err := json.Unmarshal(data, &texts); err != nil || len(texts)%2 != 0 {
		return nil, fmt.Errorf("%w: the tags of a run cannot be read", store.ErrDamaged)
	}
	tags := make([]store.Pair, len(texts)/2)
	for i := range tags {
		tags[i] = store.Pair{Key: texts[2*i], Value: texts[2*i+1]}
	}
	return tags, nil
}
