package api

import (
	"encoding/hex"
	"time"

	"github.com/stet-run/stet"
)

// Script is how a script stands.
type Script struct {
	Name     string          `json:"name"`
	Current  int             `json:"current"` // the version with which runs begin; 0: none
	By       string          `json:"by,omitempty"`
	Why      string          `json:"why,omitempty"`
	At       time.Time       `json:"at,omitzero"`        // since then it is the current one
	Versions []ScriptVersion `json:"versions,omitempty"` // newest first; a list leaves them out
}

// ScriptVersion is what is known of a version.
type ScriptVersion struct {
	Number int       `json:"number"`
	Hash   string    `json:"hash"` // SHA-256 of the code
	Size   int       `json:"size"` // of the code, in bytes
	By     string    `json:"by,omitempty"`
	Why    string    `json:"why,omitempty"`
	At     time.Time `json:"at"`            // of the first deploy
	Left   time.Time `json:"left,omitzero"` // when it ceased to be current
}

// ScriptOf returns the form of a script.
func ScriptOf(s *stet.ScriptInfo) Script {
	out := Script{Name: s.Name, Current: s.Current, By: s.By, Why: s.Why, At: s.At}
	for i := len(s.Versions) - 1; i >= 0; i-- {
		v := &s.Versions[i]
		out.Versions = append(out.Versions, ScriptVersion{v.Number, hex.EncodeToString(v.Hash[:]), v.Size, v.By, v.Why, v.At,
			v.Left})
	}
	return out
}

// Edit edits the reasons of those who have deployed it.
func (s *Script) Edit(e Editor) {
	e.text(&s.Why)
	for i := range s.Versions {
		e.text(&s.Versions[i].Why)
	}
}

// Scripts are the scripts of a store, by name.
type Scripts struct {
	Scripts []Script `json:"scripts"`
}

// ScriptSource is the source of a version.
type ScriptSource struct {
	Name    string       `json:"name"`
	Version int          `json:"version"`
	Files   []ScriptFile `json:"files"` // what was deployed, the script itself first
}

// ScriptFile is a file of a script.
type ScriptFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// DeployScript makes code the current version of a script. The server does not compile it: who
// deploys does, by script.Compile.
type DeployScript struct {
	Code   string       `json:"code"`            // one text, as package script/bundle makes it
	Files  []ScriptFile `json:"files,omitempty"` // from which it was made, for people
	Reason string       `json:"reason,omitempty"`
}

// DeployedScript says which version is current now.
type DeployedScript struct {
	Name    string `json:"name"`
	Version int    `json:"version"` // 0: nobody has decided yet, and the request stands
}

// SourceOf returns the form of a version's source. Of code that was deployed without files it is
// the code.
func SourceOf(name string, version int, code *stet.ScriptCode) ScriptSource {
	out := ScriptSource{Name: name, Version: version, Files: []ScriptFile{}}
	for _, f := range code.Files {
		out.Files = append(out.Files, ScriptFile(f))
	}
	if len(out.Files) == 0 {
		out.Files = append(out.Files, ScriptFile{name + ".js", code.Code})
	}
	return out
}

// RunScript is the source of the version that a run of a script is bound to, and where in it
// the run stands.
type RunScript struct {
	ScriptSource
	Current int           `json:"current"` // version of the script; 0: none
	Stands  []ScriptPlace `json:"stands"`  // what has begun the operations that are under way
	// Unknown says why it is not known where the run stands; "": it is.
	Unknown string `json:"unknown,omitempty"`
}

// ScriptPlace is a line that has begun an operation which is under way.
type ScriptPlace struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Location string `json:"location"`
}
