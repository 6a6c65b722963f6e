package stetvet

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const ignorePrefix = "//stetvet:ignore"

// comment is one that takes findings back.
type comment struct {
	pos    token.Pos
	rule   string
	reason string
	used   bool
}

// comments are those of a package by file and by the line that they are about.
type comments map[string]map[int][]*comment

func readComments(pass *analysis.Pass) comments {
	all := comments{}
	for _, file := range pass.Files {
		name := pass.Fset.Position(file.Pos()).Filename
		code := codeLines(pass.Fset, file)
		alone := map[int]*comment{}
		for _, group := range file.Comments {
			for _, text := range group.List {
				rest, ok := strings.CutPrefix(text.Text, ignorePrefix)
				if !ok || rest != "" && rest[0] != ' ' {
					continue
				}
				rest, _, _ = strings.Cut(rest, "// want") // analysistest's
				rule, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
				found := &comment{pos: text.Pos(), rule: rule, reason: strings.TrimSpace(reason)}
				if line := pass.Fset.Position(text.Pos()).Line; code[line] {
					all.add(name, line, found)
				} else {
					alone[line] = found
				}
			}
		}
		for line, found := range alone {
			for alone[line] != nil { // several stand above one line
				line++
			}
			all.add(name, line, found)
		}
	}
	return all
}

func (c comments) add(file string, line int, found *comment) {
	if c[file] == nil {
		c[file] = map[int][]*comment{}
	}
	c[file][line] = append(c[file][line], found)
}

// codeLines are the lines on which a piece of code begins or ends.
func codeLines(fset *token.FileSet, file *ast.File) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.File, *ast.CommentGroup, *ast.Comment:
			return n != nil && n == ast.Node(file)
		}
		lines[fset.Position(n.Pos()).Line] = true
		lines[fset.Position(n.End()-1).Line] = true
		return true
	})
	return lines
}

// takesBack reports whether a comment takes a finding of rule at a place back.
func (c comments) takesBack(at token.Position, rule string) bool {
	taken := false
	for _, found := range c[at.Filename][at.Line] {
		if found.rule == rule && found.reason != "" {
			found.used, taken = true, true
		}
	}
	return taken
}

type wrongComment struct {
	pos  token.Pos
	text string
}

// wrong are the comments that are findings themselves, once all others are known.
func (c comments) wrong(rules *ruleSet) []wrongComment {
	var all []wrongComment
	for _, lines := range c {
		for _, list := range lines {
			for _, found := range list {
				switch {
				case !slices.Contains(Rules(), found.rule):
					all = append(all, wrongComment{found.pos, "expected a rule and a reason after " + ignorePrefix +
						"; the rules are " + strings.Join(Rules(), ", ")})
				case found.reason == "":
					all = append(all, wrongComment{found.pos, "expected a reason after " + ignorePrefix + " " + found.rule})
				case !found.used && rules.on(found.rule):
					all = append(all, wrongComment{found.pos, "this takes nothing back: there is no finding of rule " +
						found.rule + " here; remove it"})
				}
			}
		}
	}
	return all
}
