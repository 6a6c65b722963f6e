package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cronField is one of the fields of an expression.
type cronField struct {
	name  string
	wraps bool // a range may go backward: 22-2 is from 22 over midnight to 2
	names []string
	first int // the number of the first name
}

var (
	monthNames   = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	weekdayNames = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

	cronFields = []cronField{
		{name: "seconds"}, {name: "minutes"}, {name: "hours", wraps: true}, {name: "days of the month"},
		{name: "months", names: monthNames, first: 1}, {name: "days of the week", wraps: true, names: weekdayNames},
	}
)

// checkFields refuses what the parser of cron accepts and nobody means: empty items of a list, which it skips, and
// ranges that go backward in fields other than hours and days of the week, such as minutes 50-10.
func checkFields(expression string) error {
	fields := strings.Fields(expression)
	if len(fields) < 5 || len(fields) > len(cronFields) {
		return nil // @daily; the parser refuses the others
	}
	for i, text := range fields {
		field := cronFields[len(cronFields)-len(fields)+i]
		for item := range strings.SplitSeq(text, ",") {
			if item == "" {
				return fmt.Errorf("expected a list of %s without empty items, found %q", field.name, text)
			}
			interval, _, _ := strings.Cut(item, "/")
			low, high, isRange := strings.Cut(interval, "-")
			from, fromOK := field.number(low)
			to, toOK := field.number(high)
			if isRange && fromOK && toOK && from > to && !field.wraps {
				return fmt.Errorf("expected a range of %s from the lower to the higher, found %q: "+
					"only hours and days of the week may go backward; write two ranges", field.name, interval)
			}
		}
	}
	return nil
}

// number returns the number of a value, which may be a name.
func (f cronField) number(text string) (int, bool) {
	if i := slices.Index(f.names, strings.ToUpper(text)); i >= 0 {
		return i + f.first, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}
