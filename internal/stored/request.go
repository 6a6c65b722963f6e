package stored

import "github.com/stet-run/stet/store"

// Request is the value of a verb that needs more than a reason: Rewind and Edit.
type Request struct {
	Why      string `cbor:"1,keyasint,omitempty"`
	Location string `cbor:"2,keyasint,omitempty"` // encoded; "": the root
	Failed   bool   `cbor:"3,keyasint,omitempty"` // an edit: Value is a failure record
	Value    []byte `cbor:"4,keyasint"`
}

// Encode returns the request's stored form.
func (q *Request) Encode() []byte { return encode(q) }

// DecodeRequest is the inverse of Encode. The error wraps store.ErrDamaged.
func DecodeRequest(data []byte) (Request, error) {
	var q Request
	err := decode(data, &q)
	return q, err
}

// Why returns the reason that the value of a verb gives.
func Why(it *store.Item) string {
	if it.Kind != store.ItemRewind && it.Kind != store.ItemEdit {
		return string(it.Value)
	}
	q, err := DecodeRequest(it.Value)
	if err != nil {
		return ""
	}
	return q.Why
}

// AuditOf returns the audit of a verb that was carried out. detail says what it did.
func AuditOf(it *store.Item, why, detail string) store.Audit {
	return store.Audit{
		Who: it.Name, Verb: it.Kind.String(),
		Why: Cut(why, store.MaxWhy-4), Detail: Cut(detail, store.MaxDetail-4),
	}
}
