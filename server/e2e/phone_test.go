package e2e

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/soak"
)

// TestPagesFitAPhone: no page is wider than the screen of a phone, and a timeline has room for its bars.
func TestPagesFitAPhone(t *testing.T) {
	soak.Faults(t)
	b := browser(t)
	s := newShop(t)
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			tb := open(t, b, s.url+"#/nothing", ".empty")
			tb.phone()
			tb.visit(p.path, p.until)
			if wide := is[int](tb, `document.documentElement.scrollWidth`); wide > 390 {
				who := is[string](tb, `[...document.querySelectorAll("body *")]
					.filter((e) => e.getBoundingClientRect().right > 391 && !e.closest(".scroll, .list, .graph, .window, .json"))
					.slice(0, 5).map((e) => e.tagName + "." + e.className).join(", ")`)
				t.Errorf("the page is %d px wide: %s", wide, who)
			}
			const bars = `Math.round(document.querySelector(".bars")?.getBoundingClientRect().width ?? 390)`
			if room := is[int](tb, bars); room < 120 {
				t.Errorf("the bars of the timeline have %d px", room)
			}
			tb.clean()
		})
	}
}
