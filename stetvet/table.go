package stetvet

import (
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// table says what functions, methods and variables of the standard library, and of what
// everybody uses beside it, do. A name is a function or variable, "Type.Method", or
// "Type.*". Of "*" all functions and variables of a package, without its methods.
var table = map[string]map[string][]string{
	"time": {ruleClock: {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}},

	"math/rand":    {ruleRandom: {"*"}},
	"math/rand/v2": {ruleRandom: {"*"}},
	"crypto/rand":  {ruleRandom: {"*"}},
	"hash/maphash": {ruleRandom: {"MakeSeed", "Hash.Sum64", "Hash.Seed"}},

	"os": {
		ruleLog: {"Stdout", "Stderr"},
		ruleIO:  {"*", "File.*", "Process.*", "Root.*"},
	},
	"os/exec":   {ruleIO: {"*", "Cmd.*"}},
	"os/signal": {ruleIO: {"*"}},
	"os/user":   {ruleIO: {"*"}},
	"syscall":   {ruleIO: {"*"}},
	"io/ioutil": {ruleIO: {"ReadFile", "WriteFile", "ReadDir", "TempDir", "TempFile"}},
	"io/fs":     {ruleIO: {"ReadFile", "ReadDir", "Stat", "WalkDir", "Glob"}},
	"embed":     {},
	"net": {ruleIO: {"Dial", "DialTimeout", "DialIP", "DialTCP", "DialUDP", "DialUnix", "Listen", "ListenPacket", "ListenTCP",
		"ListenUDP", "LookupAddr", "LookupCNAME", "LookupHost", "LookupIP", "LookupMX", "LookupNS", "LookupPort",
		"LookupSRV", "LookupTXT", "Interfaces", "InterfaceAddrs", "InterfaceByName", "ResolveIPAddr", "ResolveTCPAddr",
		"ResolveUDPAddr", "Dialer.*", "Resolver.*", "TCPConn.*", "UDPConn.*", "UnixConn.*"}},
	"net/http": {ruleIO: {"Get", "Head", "Post", "PostForm", "ListenAndServe", "ListenAndServeTLS", "Serve", "Client.Do",
		"Client.Get", "Client.Head", "Client.Post", "Client.PostForm", "Transport.RoundTrip", "Server.ListenAndServe"}},
	"net/smtp":      {ruleIO: {"*", "Client.*"}},
	"net/rpc":       {ruleIO: {"Dial", "DialHTTP", "Client.*"}},
	"path/filepath": {ruleIO: {"Abs", "EvalSymlinks", "Glob", "Walk", "WalkDir"}},
	"database/sql":  {ruleIO: {"DB.*", "Conn.*", "Tx.*", "Stmt.*", "Rows.*", "Row.*"}},
	"runtime": {
		ruleIO:        {"NumCPU", "NumGoroutine", "GOMAXPROCS", "ReadMemStats", "Stack", "LockOSThread"},
		ruleGoroutine: {"Gosched", "Goexit"},
	},
	"fmt": {
		ruleLog: {"Print", "Printf", "Println"},
		ruleIO:  {"Scan", "Scanf", "Scanln"},
	},
	"log": {ruleLog: {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "Output",
		"Logger.Print", "Logger.Printf", "Logger.Println", "Logger.Fatal", "Logger.Fatalf", "Logger.Fatalln",
		"Logger.Output"}},
	"log/slog": {ruleLog: {"Debug", "DebugContext", "Info", "InfoContext", "Warn", "WarnContext", "Error", "ErrorContext",
		"Log", "LogAttrs", "Default"}},

	"sync":        {ruleSync: {"Mutex.*", "RWMutex.*", "WaitGroup.*", "Once.*", "Cond.*", "Map.*", "Pool.*"}},
	"sync/atomic": {ruleGlobal: {"*", "Bool.*", "Int32.*", "Int64.*", "Uint32.*", "Uint64.*", "Uintptr.*", "Pointer.*", "Value.*"}},

	"golang.org/x/sync/errgroup":  {ruleGoroutine: {"Group.Go", "Group.TryGo"}, ruleSync: {"Group.Wait"}},
	"golang.org/x/sync/semaphore": {ruleSync: {"Weighted.*"}},
}

// harmless are names of packages of which the table has all.
var harmless = map[string][]string{
	"math/rand":    {"New", "NewSource", "NewZipf"},
	"math/rand/v2": {"New", "NewPCG", "NewChaCha8", "NewZipf"},
	"os": {"DirFS", "Expand", "IsExist", "IsNotExist", "IsPathSeparator", "IsPermission", "IsTimeout", "NewSyscallError", "SameFile",
		"ErrClosed", "ErrDeadlineExceeded", "ErrExist", "ErrInvalid", "ErrNoDeadline", "ErrNotExist", "ErrPermission",
		"ErrProcessDone", "File.Name", "Interrupt", "Kill"},
	"os/exec":      {"ErrDot", "ErrNotFound", "ErrWaitDelay", "Cmd.String"},
	"net/smtp":     {"PlainAuth", "CRAMMD5Auth"},
	"database/sql": {"Row.Err", "Rows.Err"},
	"sync/atomic":  {},
}

// inTable returns the rule for a function, method or variable of the table, or "".
func inTable(obj types.Object) (rule string, listed bool) {
	if obj.Pkg() == nil {
		return "", false
	}
	rules, listed := table[obj.Pkg().Path()]
	if !listed {
		return "", false
	}
	name, receiver := obj.Name(), ""
	if fn, ok := obj.(*types.Func); ok {
		if receiver = receiverName(fn); receiver != "" {
			name = receiver + "." + name
		}
	}
	if slices.Contains(harmless[obj.Pkg().Path()], name) {
		return "", true
	}
	for _, pattern := range []string{name, receiver + ".*", "*"} { // the most exact one first
		for _, rule := range Rules() {
			if slices.Contains(rules[rule], pattern) && (pattern != "*" || receiver == "" && obj.Exported()) {
				return rule, true
			}
		}
	}
	return "", true
}

// receiverName is the name of the type of a method, or "". A method of an interface has none:
// what it does is out of reach.
func receiverName(fn *types.Func) string {
	recv := fn.Signature().Recv()
	if recv == nil {
		return ""
	}
	t := recv.Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		return named.Obj().Name()
	}
	return "?"
}

var standardRoots = strings.Fields(`archive bufio bytes cmp cmd compress container context crypto database debug embed
	encoding errors expvar flag fmt go hash html image index internal io iter log maps math mime net os path plugin
	reflect regexp runtime simd slices sort strconv strings structs sync syscall testing text time unicode unique unsafe
	vendor weak`)

// standard reports whether the package is of the standard library.
func standard(pass *analysis.Pass) bool {
	if pass.Module != nil && pass.Module.Path != "" && pass.Module.Path != "std" && pass.Module.Path != "cmd" {
		return false
	}
	return standardPath(pass.Pkg.Path())
}

func standardPath(path string) bool {
	root, _, _ := strings.Cut(path, "/")
	return slices.Contains(standardRoots, root)
}
