// Package plugin is stetvet as a module plugin of golangci-lint: see docs/guide/checking.md.
package plugin

import (
	"fmt"
	"strings"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/stet-run/stet/stetvet"
)

func init() { register.Plugin("stetvet", New) }

// Settings are those of .golangci.yml.
type Settings struct {
	// Rules is the text of the flag of the same name: rules to turn off ("-log,-sync"), or
	// the only ones that are on. "" has every rule on.
	Rules string `json:"rules"`
	// Contexts are further types whose functions are workflow code: "example.com/flow.Context".
	Contexts []string `json:"contexts"`
	// Bodies are functions and methods that are given bodies of steps: "example.com/flow.Step",
	// "example.com/flow.Run.Once".
	Bodies []string `json:"bodies"`
}

// New returns the plugin for settings as golangci-lint has read them: nil, or a map. An
// unknown setting or rule is an error.
func New(settings any) (register.LinterPlugin, error) {
	s, err := register.DecodeSettings[Settings](settings)
	if err != nil {
		return nil, err
	}
	analyzer := stetvet.New()
	for name, text := range map[string]string{
		"rules": s.Rules, "contexts": strings.Join(s.Contexts, ","), "bodies": strings.Join(s.Bodies, ","),
	} {
		if err := analyzer.Flags.Set(name, text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return &linter{analyzer}, nil
}

type linter struct{ analyzer *analysis.Analyzer }

func (l *linter) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	return []*analysis.Analyzer{l.analyzer}, nil
}

func (l *linter) GetLoadMode() string { return register.LoadModeTypesInfo }
