// Package plugin is stetvet as a module plugin of golangci-lint: see docs/guide/checking.md.
package plugin

import (
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
}

// New returns the plugin for settings as golangci-lint has read them: nil, or a map. An
// unknown setting or rule is an error.
func New(settings any) (register.LinterPlugin, error) {
	s, err := register.DecodeSettings[Settings](settings)
	if err != nil {
		return nil, err
	}
	analyzer := stetvet.New()
	if err := analyzer.Flags.Set("rules", s.Rules); err != nil {
		return nil, err
	}
	return &linter{analyzer}, nil
}

type linter struct{ analyzer *analysis.Analyzer }

func (l *linter) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	return []*analysis.Analyzer{l.analyzer}, nil
}

func (l *linter) GetLoadMode() string { return register.LoadModeTypesInfo }
