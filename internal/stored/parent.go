package stored

import (
	"fmt"

	"github.com/stet-run/stet/store"
)

// parentHeader is the header of a cancel with which a parent cancels its child: the number of the
// parent. The ID of a child may be that of a run that somebody else has started.
const parentHeader = "stet-parent"

// FromParent returns the stored headers of such a cancel.
func FromParent(parent store.RunNo) []byte {
	return fmt.Appendf(nil, `{"%s":"%d"}`, parentHeader, parent)
}

// ByAnother reports whether an item is the cancel of a run by a parent that is not its own.
func ByAnother(it *store.Item, run *store.Run) bool {
	var parent store.RunNo
	if it.Kind != store.ItemCancel || it.Name != "" {
		return false
	}
	_, err := fmt.Sscanf(string(it.Headers), `{"`+parentHeader+`":"%d"}`, &parent)
	return err == nil && parent != run.Parent
}
