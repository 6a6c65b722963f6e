package stored

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// ExpiryHeader is the reserved header of a message that expires: how long after it was sent,
// in microseconds. The run does not see it.
const ExpiryHeader = "stet-expires-us"

// PutExpiry returns the stored headers of a message with its expiry, which is positive.
func PutExpiry(headers []byte, after time.Duration) ([]byte, error) {
	all := map[string]string{}
	if len(headers) > 0 {
		if err := json.Unmarshal(headers, &all); err != nil {
			return nil, err
		}
	}
	all[ExpiryHeader] = strconv.FormatInt(max(after.Microseconds(), 1), 10)
	return json.Marshal(all)
}

// SplitExpiry returns the headers of a message without its expiry, and that; 0: it does not
// expire. What cannot be read is no expiry.
func SplitExpiry(headers []byte) (rest []byte, after time.Duration) {
	if !bytes.Contains(headers, []byte(`"`+ExpiryHeader+`"`)) {
		return headers, 0
	}
	var all map[string]string
	if json.Unmarshal(headers, &all) != nil {
		return headers, 0
	}
	us, err := strconv.ParseInt(all[ExpiryHeader], 10, 64)
	if err != nil || us < 1 {
		return headers, 0
	}
	if delete(all, ExpiryHeader); len(all) > 0 {
		rest, _ = json.Marshal(all) // strings always can be
	}
	return rest, time.Duration(us) * time.Microsecond
}
