package stored

import "github.com/stet-run/stet/store"

// Request is the value of a verb that needs more than a reason: of Rewind and Edit always,
// of Resume and Retry with AnyBuild. Those two have the reason itself otherwise.
type Request struct {
	Why      string `cbor:"1,keyasint,omitempty"`
	Location string `cbor:"2,keyasint,omitempty"` // encoded; "": the root
	Failed   bool   `cbor:"3,keyasint,omitempty"` // an edit: Value is a failure record
	Value    []byte `cbor:"4,keyasint"`
	AnyBuild bool   `cbor:"5,keyasint,omitempty"` // an earlier build may take the run up, too
}

// Encode returns the request's stored form.
func (q *Request) Encode() []byte { return encode(q) }

// DecodeRequest is the inverse of Encode. The error wraps store.ErrDamaged.
func DecodeRequest(data []byte) (Request, error) {
	var q Request
	err := decode(data, &q)
	return q, err
}

// RequestOf returns the request that the value of a verb makes. Of one that cannot be read
// it is empty.
func RequestOf(it *store.Item) Request {
	switch it.Kind {
	case store.ItemRewind, store.ItemEdit:
		q, _ := DecodeRequest(it.Value)
		return q
	case store.ItemResume, store.ItemRetry:
		if len(it.Value) > 0 && it.Value[0]>>5 == 5 { // a map in CBOR; no text begins with these bytes
			if q, err := DecodeRequest(it.Value); err == nil {
				return q
			}
		}
	}
	return Request{Why: string(it.Value)}
}

// Why returns the reason that the value of a verb gives.
func Why(it *store.Item) string {
	q := RequestOf(it)
	return q.Why
}

// AuditOf returns the audit of a verb that was carried out. detail says what it did.
func AuditOf(it *store.Item, why, detail string) store.Audit {
	return store.Audit{
		Who: it.Name, Verb: it.Kind.String(),
		Why: Cut(why, store.MaxWhy-4), Detail: Cut(detail, store.MaxDetail-4),
	}
}

// TakenUp returns when an operator has last made a run go on, or has made it as a fork, as
// its audit says; 0: nobody has.
func TakenUp(audit []store.Audit) (at store.Time) {
	for i := range audit {
		switch audit[i].Verb {
		case store.ItemResume.String(), store.ItemRetry.String(), store.ItemRewind.String(), store.ItemEdit.String(), "fork":
			at = max(at, audit[i].Time)
		}
	}
	return at
}
