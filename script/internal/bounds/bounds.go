// Package bounds looks at the source of a script before a parser enters it. The parsers of the interpreter and of the
// bundler call themselves for each level of the source, and end the process when their stack is full; some sources
// take them minutes. The package reads a source once, from left to right, and knows of the language what the bounds
// need. It does not replace a parser: what it lets pass may be wrong.
package bounds

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of a source.
const (
	// MaxFile is the most bytes of a file that the bundler reads.
	MaxFile = 1 << 20
	// MaxFiles is the most bytes of all files of a script that the bundler reads.
	MaxFiles = 8 << 20
	// MaxBrackets is how many brackets may be open at one place.
	MaxBrackets = 200
	// MaxSigns is how many words and signs an expression or a statement may have, with those around it that are not
	// over. A list is over at each comma. A chain of n sums takes a compiler n levels, and n² steps.
	MaxSigns = 4000
	// MaxArrows is how many parameter lists of arrow functions may be within each other. The interpreter's parser reads
	// such a list twice, and the lists within it four times.
	MaxArrows = 4
	// MaxOpening is how many opening brackets a text may have, also in its strings and comments. After an error of
	// syntax the interpreter's parser goes on, and may take the text of a string for code. A level takes 4 KiB of its
	// stack, so that this many cannot fill it.
	MaxOpening = 40_000
)

// Check returns an error that says what was expected, what was found and where, if a source exceeds a bound, or if a
// bracket, a text, a comment or a regular expression of it has no end. name is the name of the file.
func Check(name, source string) error {
	if err := Count(name, source); err != nil {
		return err
	}
	s := scan{name: name, source: source, levels: []level{{block: true, first: true}}}
	return s.all()
}

// Count is Check for a text whose words are not known, such as a file with JSX: it counts opening brackets alone.
func Count(name, source string) error {
	n := 0
	for i := range len(source) {
		switch source[i] {
		case '(', '[', '{':
			n++
		}
	}
	if n > MaxOpening {
		return fmt.Errorf("%s: expected at most %d opening brackets, found %d: make several scripts of it, or pass the "+
			"data as input", name, MaxOpening, n)
	}
	return nil
}

// kind is what the last sign was. It decides whether a slash divides or begins a regular expression.
type kind int

const (
	operator kind = iota // an expression is to follow; the begin of the source, too
	operand              // an expression may be over
	unclear              // either
)

// level is one of brackets that are open.
type level struct {
	open   byte // ( [ { or $ for that of a template; 0: the source itself
	at     int
	header bool // of if, for, while or with: what follows is a statement
	block  bool // it may have statements
	signs  int  // since the last expression or statement was over
	angles int  // < that may begin a list of types, and that no > has ended
	first  bool // the next word is the first one of a statement
	list   bool // the statement declares variables: a comma ends one
	arrows int  // most parameter lists of arrow functions within each other
}

// end says which sign begins another statement, if it is the next one.
type end int

const (
	none    end = iota
	byWord      // a word that is not among continuing: after a } or a line
	bySigns     // any but those words: after a semicolon
)

// scan reads a source.
type scan struct {
	name, source string
	at           int
	levels       []level

	last     kind
	lastSign byte   // the last sign, if it is none of a word; 0: a word, a text or a number
	lastWord string // if the last sign was a word
	over     end
	heads    bool // ( would begin the header of a statement
	lists    bool // { would begin a list of names
	arrows   int  // of the parentheses that the last sign has ended
	line     bool // a line has ended since the last sign
	begun    bool // this line has had a sign
}

var (
	// regular are words after which a slash begins a regular expression.
	regular = words("return typeof instanceof in new delete void throw case do else extends default")
	// either are words that are names in some places, and operators in others.
	either = words("of yield await let async")
	// leading are words with which what follows belongs together, also in the next line.
	leading = words("class function var const let static get set import export try switch catch finally type interface " +
		"enum declare namespace module abstract public private protected readonly accessor async if for while with")
	// continuing are words that go on with a statement or an expression after its apparent end.
	continuing = words("else catch finally while in instanceof of as satisfies extends implements is")
)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

func (s *scan) top() *level { return &s.levels[len(s.levels)-1] }

func (s *scan) fail(at int, format string, args ...any) error {
	line := 1 + strings.Count(s.source[:at], "\n")
	column := at - strings.LastIndexByte(s.source[:at], '\n')
	return fmt.Errorf("%s:%d:%d: %s", s.name, line, column, fmt.Sprintf(format, args...))
}

func (s *scan) all() error {
	if strings.HasPrefix(s.source, "#!") {
		s.lineComment()
	}
	for {
		if err := s.space(); err != nil {
			return err
		}
		if s.at >= len(s.source) {
			break
		}
		if err := s.sign(); err != nil {
			return err
		}
		s.line, s.begun = false, true
	}
	if top := s.top(); top.open != 0 {
		return s.fail(top.at, "expected an end of %c, found none", s.source[top.at])
	}
	return nil
}

// space goes over spaces and comments.
func (s *scan) space() error {
	for s.at < len(s.source) {
		switch c := s.source[s.at]; {
		case c == '\n' || c == '\r' || isSeparator(s.source[s.at:]):
			s.line, s.begun = true, false
			s.at++
			if c >= utf8.RuneSelf {
				s.at += len("\u2028") - 1
			}
		case c <= ' ':
			s.at++
		case c >= utf8.RuneSelf && spaceWidth(s.source[s.at:]) > 0:
			s.at += spaceWidth(s.source[s.at:])
		case strings.HasPrefix(s.source[s.at:], "//"):
			s.lineComment()
		case strings.HasPrefix(s.source[s.at:], "/*"):
			n := strings.Index(s.source[s.at+2:], "*/")
			if n < 0 {
				return s.fail(s.at, "expected an end of the comment, found none")
			}
			if text := s.source[s.at : s.at+2+n]; strings.ContainsAny(text, "\n\r\u2028\u2029") {
				s.line, s.begun = true, false
			}
			s.at += n + len("/**/")
		default:
			return nil
		}
	}
	return nil
}

func (s *scan) lineComment() {
	if n := strings.IndexAny(s.source[s.at:], "\n\r\u2028\u2029"); n >= 0 {
		s.at += n
	} else {
		s.at = len(s.source)
	}
}

// isSeparator reports whether a text begins with one of the ends of lines beyond ASCII.
func isSeparator(text string) bool {
	return strings.HasPrefix(text, "\u2028") || strings.HasPrefix(text, "\u2029")
}

// spaceWidth returns the bytes of the space beyond ASCII with which a text begins; 0: it begins with none.
func spaceWidth(text string) int {
	if c, n := utf8.DecodeRuneInString(text); c == '\ufeff' || c > utf8.RuneSelf && unicode.IsSpace(c) {
		return n
	}
	return 0
}

// isWord reports whether a text begins with a part of a word.
func isWord(text string) bool {
	if text == "" {
		return false
	}
	c := text[0]
	return c == '$' || c == '_' || c == '\\' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
		c >= utf8.RuneSelf && spaceWidth(text) == 0
}

// sign reads a word, a text, a number, a regular expression, a bracket or an operator.
func (s *scan) sign() error {
	switch c, rest := s.source[s.at], s.source[s.at+1:]; {
	case c >= '0' && c <= '9', c == '.' && beginsNumber(rest):
		return s.number()
	case isWord(s.source[s.at:]):
		return s.word()
	case c == '"' || c == '\'':
		return s.text(c)
	case c == '`':
		if err := s.count(""); err != nil {
			return err
		}
		s.at++
		return s.template(s.at - 1)
	case c == '/':
		return s.slash()
	case c == '(' || c == '[' || c == '{':
		return s.opens(c)
	case c == ')' || c == ']' || c == '}':
		return s.closes(c)
	}
	return s.operator()
}

func beginsNumber(text string) bool { return text != "" && text[0] >= '0' && text[0] <= '9' }

// count notes that another sign begins here. word is what it is; "": it is none, or the name of a member.
func (s *scan) count(word string) error {
	top := s.top()
	if s.over == byWord && word != "" && !continuing[word] || s.over == bySigns && !continuing[word] {
		top.signs, top.angles, top.first, top.list = 0, 0, true, false
	}
	s.over = none
	top.signs++
	if top.first {
		top.first, top.list = false, word == "var" || word == "let" || word == "const"
	}
	sum := 0
	for i := range s.levels {
		sum += s.levels[i].signs + s.levels[i].angles
	}
	if sum > MaxSigns {
		return s.fail(s.at, "expected at most %d words and signs in one statement or expression and around it, found more: "+
			"divide it, with variables and semicolons", MaxSigns)
	}
	return nil
}

func (s *scan) ended(last kind, sign byte, word string) {
	s.last, s.lastSign, s.lastWord, s.heads = last, sign, word, false
}

func (s *scan) number() error {
	if err := s.count(""); err != nil {
		return err
	}
	for s.at < len(s.source) && (isWord(s.source[s.at:]) || s.source[s.at] == '.') {
		s.at++
	}
	s.ended(operand, 0, "")
	return nil
}

func (s *scan) word() error {
	end := s.at
	for isWord(s.source[end:]) {
		if end++; strings.HasPrefix(s.source[end-1:], `\u{`) {
			end += len("u{")
			for end < len(s.source) && strings.IndexByte("0123456789abcdefABCDEF", s.source[end]) >= 0 {
				end++
			}
			if strings.HasPrefix(s.source[end:], "}") {
				end++
			}
		}
	}
	word, before := s.source[s.at:end], s.lastWord
	if s.lastSign == '.' || s.lastSign == '#' {
		word = ""
	} else if s.line && s.last == operand && !leading[before] && s.over == none {
		s.over = byWord // a line ends a statement where nothing goes on
	}
	if err := s.count(word); err != nil {
		return err
	}
	s.at = end
	switch {
	case regular[word]:
		s.ended(operator, 0, word)
	case either[word]:
		s.ended(unclear, 0, word)
	default:
		s.ended(operand, 0, word)
	}
	s.lists = s.lists || word == "enum" || word == "interface" || word == "import" || word == "export"
	s.heads = word == "if" || word == "for" || word == "while" || word == "with" || word == "await" && before == "for"
	return nil
}

func (s *scan) text(quote byte) error {
	if err := s.count(""); err != nil {
		return err
	}
	begin := s.at
	for s.at++; s.at < len(s.source); s.at++ {
		switch s.source[s.at] {
		case quote:
			s.at++
			s.ended(operand, 0, "")
			return nil
		case '\\':
			if s.at++; strings.HasPrefix(s.source[min(s.at, len(s.source)):], "\r\n") {
				s.at++
			}
		case '\n', '\r':
			return s.fail(begin, "expected an end of the string in its line, found none")
		}
	}
	return s.fail(begin, "expected an end of the string, found none")
}

// template reads the text of a template, to its end or its next expression.
func (s *scan) template(begin int) error {
	for ; s.at < len(s.source); s.at++ {
		switch s.source[s.at] {
		case '`':
			s.at++
			s.ended(operand, 0, "")
			return nil
		case '\\':
			s.at++
		case '$':
			if strings.HasPrefix(s.source[s.at:], "${") {
				s.at += len("${")
				return s.push(level{open: '$', at: begin})
			}
		}
	}
	return s.fail(begin, "expected an end of the template, found none")
}

func (s *scan) push(l level) error {
	if len(s.levels) > MaxBrackets {
		return s.fail(l.at, "expected at most %d brackets that are open at one place, found more: make functions or "+
			"variables of the inner ones", MaxBrackets)
	}
	l.first = l.block
	s.levels = append(s.levels, l)
	s.ended(operator, l.open, "")
	s.over, s.lists = none, false
	return nil
}

func (s *scan) opens(c byte) error {
	l := level{open: c, at: s.at, header: s.heads, block: c == '{' && s.isBlock()}
	if err := s.count(""); err != nil {
		return err
	}
	s.at++
	return s.push(l)
}

// isBlock reports whether a { here may begin a block, in which commas do not end what is counted.
func (s *scan) isBlock() bool {
	switch s.lastSign {
	case 0:
		begin := s.last == operator && s.lastWord == "" // of the source
		return !s.lists && (s.last != operator || begin || s.lastWord == "do" || s.lastWord == "else")
	case ':':
		return s.top().block
	case '>', ')', '{', '}', ';':
		return true
	}
	return false
}

var partners = map[byte]byte{')': '(', ']': '[', '}': '{'}

func (s *scan) closes(c byte) error {
	top := *s.top()
	if top.open != partners[c] && (c != '}' || top.open != '$') {
		return s.fail(s.at, "expected what ends a former bracket, or none, found %c", c)
	}
	s.levels = s.levels[:len(s.levels)-1]
	parent := s.top()
	parent.arrows = max(parent.arrows, top.arrows)
	s.at++
	s.over = none
	if top.open == '$' {
		return s.template(top.at)
	}
	switch {
	case c == '}':
		s.ended(unclear, c, "")
		s.over = byWord
	case top.header:
		s.ended(operator, c, "")
	default:
		s.ended(operand, c, "")
	}
	s.arrows = top.arrows
	return nil
}

// slash reads a regular expression, or an operator.
func (s *scan) slash() error {
	at := s.at
	if err := s.count(""); err != nil {
		return err
	}
	end := s.expression(at)
	if s.last == unclear && end > 0 && strings.ContainsAny(s.source[at+1:end], "\"'`()[]{}") {
		return s.fail(at, "expected a slash that divides, or that begins a regular expression, found one that may do "+
			"either: put what it belongs to in parentheses")
	}
	switch {
	case s.last != operator:
		s.at++
		s.ended(operator, '/', "")
		return nil
	case end < 0:
		return s.fail(at, "expected an end of the regular expression in its line, found none")
	}
	for s.at = end + 1; isWord(s.source[s.at:]); {
		s.at++
	}
	s.ended(operand, 0, "")
	return nil
}

// expression returns where the regular expression ends that may begin at a slash; -1: its line has no end of one.
func (s *scan) expression(at int) int {
	class := false
	for i := at + 1; i < len(s.source); i++ {
		switch c := s.source[i]; {
		case c == '\n' || c == '\r' || isSeparator(s.source[i:]):
			return -1
		case c == '\\':
			if i++; i < len(s.source) && (s.source[i] == '\n' || s.source[i] == '\r') {
				return -1
			}
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			return i
		}
	}
	return -1
}

// operator reads a sign that is no bracket. Those of several characters count for each, but for => ?. ++ and --.
func (s *scan) operator() error {
	c, rest := s.source[s.at], s.source[s.at:]
	if strings.HasPrefix(rest, "<!--") || !s.begun && strings.HasPrefix(rest, "-->") {
		return s.fail(s.at, "expected a comment that begins with // or /*, found one of HTML")
	}
	top, previous := s.top(), *s
	if c == ';' && top.open != '(' {
		s.at++
		s.ended(operator, c, "")
		s.over, s.lists = bySigns, false
		return nil
	}
	if err := s.count(""); err != nil {
		return err
	}
	s.at++
	s.ended(operator, c, "")
	switch {
	case strings.HasPrefix(rest, "++"), strings.HasPrefix(rest, "--"):
		s.at++
		s.last = unclear
	case strings.HasPrefix(rest, "=>"):
		s.at++
		s.lastSign = '>'
		if previous.lastSign != ')' {
			return nil
		}
		if top.arrows = max(top.arrows, previous.arrows+1); top.arrows > MaxArrows {
			return s.fail(previous.at, "expected at most %d parameter lists of arrow functions within each other, found more: "+
				"make variables of the inner functions", MaxArrows)
		}
	case strings.HasPrefix(rest, "?.") && !beginsNumber(rest[len("?."):]):
		s.at++
		s.lastSign = '.'
	case c == '!' && !s.line: // TypeScript: x! is x
		s.last = previous.last
	case c == '<':
		top.angles++
	case c == '>':
		top.angles, s.last = max(0, top.angles-1), unclear
	case c == ':' && previous.lastWord == "let":
		top.list = false // it is a label
	case c == '=':
		s.lists = false
	case (c == ',' || c == ';') && (!top.block || top.list):
		top.signs = 0
	}
	return nil
}
