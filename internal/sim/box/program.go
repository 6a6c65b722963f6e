package box

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// Program is a compiled program. It is safe for concurrent use.
type Program struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	data    *image // of the program's data
	env     [][2]string
	ready   func() (*state, error) // of a machine that has initialised itself
	with    bool                   // it is made by WithEnv, of a program that has the runtime

	// Store is the program of the store's machine on a disk; nil: there is none.
	Store *Program
}

// Compile compiles a program. What it makes is kept in the folder cache for the next time.
func Compile(ctx context.Context, wasm []byte, cache string) (*Program, error) {
	kept, err := wazero.NewCompilationCacheWithDir(cache)
	if err != nil {
		return nil, err
	}
	wasm, begin, err := prepare(wasm)
	if err != nil {
		return nil, err
	}
	cfg := wazero.NewRuntimeConfig().WithCompilationCache(kept).WithMemoryLimitPages(mostPages)
	p := &Program{runtime: wazero.NewRuntimeWithConfig(ctx, cfg), data: begin}
	p.env = [][2]string{{"GOGC", "400"}} // machines are small, and live for a second
	wasi := p.runtime.NewHostModuleBuilder(wasi_snapshot_preview1.ModuleName)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(wasi)
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	for name, f := range map[string]struct {
		do     outside
		params []api.ValueType
	}{
		"clock_time_get":      {clockTimeGet, []api.ValueType{i32, i64, i32}},
		"random_get":          {randomGet, []api.ValueType{i32, i32}},
		"poll_oneoff":         {pollOneoff, []api.ValueType{i32, i32, i32, i32}},
		"fd_read":             {fdRead, []api.ValueType{i32, i32, i32, i32}},
		"fd_fdstat_get":       {fdstatGet, []api.ValueType{i32, i32}},
		"fd_fdstat_set_flags": {func(*Machine, api.Memory, []uint64) errno { return 0 }, []api.ValueType{i32, i32}},
	} {
		wasi.NewFunctionBuilder().WithGoModuleFunction(f.do.of(true), f.params, []api.ValueType{i32}).Export(name)
	}
	if _, err := wasi.Instantiate(ctx); err != nil {
		return nil, err
	}
	world := p.runtime.NewHostModuleBuilder("world")
	world.NewFunctionBuilder().
		WithGoModuleFunction(outside(send).of(false), []api.ValueType{i32, i32, i32, i32, i32}, nil).Export("send")
	world.NewFunctionBuilder().
		WithGoModuleFunction(outside(note).of(false), []api.ValueType{i32, i32}, nil).Export("note")
	world.NewFunctionBuilder().
		WithGoModuleFunction(outside(arguments).of(true), []api.ValueType{i32, i32}, []api.ValueType{i32}).Export("arguments")
	if _, err := world.Instantiate(ctx); err != nil {
		return nil, err
	}
	p.module, err = p.runtime.CompileModule(ctx, wasm)
	p.ready = sync.OnceValues(p.initialise)
	return p, err
}

// mostPages is the most memory of a machine, 1 GiB in pages of 64 KiB.
const mostPages = 1 << 14

// WithEnv returns the program with one more variable in the environment of its machines. It is to be
// closed before p is.
func (p *Program) WithEnv(name, value string) *Program {
	with := &Program{runtime: p.runtime, module: p.module, data: p.data, with: true}
	with.env = append(slices.Clone(p.env), [2]string{name, value})
	with.ready = sync.OnceValues(with.initialise)
	if p.Store != nil {
		with.Store = p.Store.WithEnv(name, value)
	}
	return with
}

// Close releases the program, which no world executes any more.
func (p *Program) Close() error {
	s, err := p.ready()
	if err == nil {
		err = s.memory.close()
	}
	if !p.with {
		err = errors.Join(err, p.runtime.Close(context.Background()), p.data.close())
	}
	if p.Store != nil {
		err = errors.Join(err, p.Store.Close())
	}
	return err
}

// Names of what a program exports: a machine initialises itself, and lives.
const (
	initialise = "_initialize"
	life       = "life"
)

// begin returns a machine whose memory begins with an image.
func (p *Program) begin(ctx context.Context, m *Machine, memory *image) (api.Module, error) {
	cfg := wazero.NewModuleConfig().WithName("").WithArgs(m.Name).WithStdout(m).WithStderr(m).WithStartFunctions()
	if m.disk != nil {
		cfg = cfg.WithFSConfig(wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(m.disk, "/"))
	}
	for _, v := range p.env {
		cfg = cfg.WithEnv(v[0], v[1])
	}
	return p.runtime.InstantiateModule(memory.with(ctx), p.module, cfg)
}

// run executes the life of a machine, from where it has initialised itself.
func (p *Program) run(ctx context.Context, m *Machine) error {
	s, err := p.ready()
	if err != nil {
		return err
	}
	module, err := p.begin(ctx, m, s.memory)
	if err != nil {
		return err
	}
	defer module.Close(ctx)
	if err := s.restore(module); err != nil {
		return err
	}
	_, err = module.ExportedFunction(life).Call(ctx)
	return err
}

type machineKey struct{}

// errno is an error number of WASI.
type errno uint32

const (
	again errno = 6
	badf  errno = 8
)

// outside is a call by which a program sees its outside.
type outside func(m *Machine, mem api.Memory, args []uint64) errno

func (f outside) of(answers bool) api.GoModuleFunc {
	return func(ctx context.Context, module api.Module, stack []uint64) {
		m := ctx.Value(machineKey{}).(*Machine)
		m.call()
		e := f(m, module.Memory(), stack)
		if answers {
			stack[0] = uint64(e)
		}
	}
}

// look is what a look at a clock takes.
const look = 200 * time.Nanosecond

func clockTimeGet(m *Machine, mem api.Memory, args []uint64) errno {
	m.w.now += look
	at := m.tick()
	if uint32(args[0]) == 0 {
		at += time.Duration(m.w.Begins.UnixNano()) + m.day
	}
	mem.WriteUint64Le(uint32(args[2]), uint64(at))
	return 0
}

func randomGet(m *Machine, mem api.Memory, args []uint64) errno {
	b, _ := mem.Read(uint32(args[0]), uint32(args[1]))
	_, _ = m.random.Read(b) // it never fails
	return 0
}

// The sizes and kinds of poll_oneoff's structures.
const (
	subscriptionSize = 48
	eventSize        = 32
	kindClock        = 0
	kindRead         = 1
)

// pollOneoff waits for the first of a clock and a message.
func pollOneoff(m *Machine, mem api.Memory, args []uint64) errno {
	in, out, n, result := uint32(args[0]), uint32(args[1]), uint32(args[2]), uint32(args[3])
	limit := time.Duration(-1)
	reads := false
	for i := range n {
		s, _ := mem.Read(in+i*subscriptionSize, subscriptionSize)
		switch s[8] {
		case kindClock:
			if d := time.Duration(binary.LittleEndian.Uint64(s[24:])); limit < 0 || d < limit {
				limit = d
			}
		case kindRead:
			reads = true
		}
	}
	if limit != 0 && !(reads && m.inbox.Len() > 0) {
		m.wait(limit, reads)
	}
	events := uint32(0)
	for i := range n {
		s, _ := mem.Read(in+i*subscriptionSize, subscriptionSize)
		if s[8] == kindRead && m.inbox.Len() == 0 || s[8] > kindRead {
			continue
		}
		e, _ := mem.Read(out+events*eventSize, eventSize)
		clear(e)
		copy(e, s[:8])
		e[10] = s[8]
		if s[8] == kindRead {
			binary.LittleEndian.PutUint64(e[16:], uint64(m.inbox.Len()))
		}
		events++
	}
	mem.WriteUint32Le(result, events)
	return 0
}

// wait gives the world to the others, until limit has passed by the machine's clock or, if
// it reads, a message is there. A limit below 0 is none.
func (m *Machine) wait(limit time.Duration, reads bool) {
	m.waiting, m.reads = true, reads
	m.timer++
	if timer := m.timer; limit >= 0 {
		m.w.After(time.Duration(float64(limit)/m.rate), func() {
			if m.timer == timer {
				m.wake()
			}
		})
	}
	if m.yields(struct{}{}); m.ends {
		panic(sys.NewExitError(killed))
	}
}

func fdRead(m *Machine, mem api.Memory, args []uint64) errno {
	if uint32(args[0]) != 0 {
		return badf
	}
	if m.inbox.Len() == 0 {
		return again
	}
	read := 0
	for i := range uint32(args[2]) {
		at, _ := mem.ReadUint32Le(uint32(args[1]) + 8*i)
		size, _ := mem.ReadUint32Le(uint32(args[1]) + 8*i + 4)
		b, _ := mem.Read(at, size)
		n, _ := m.inbox.Read(b)
		read += n
	}
	mem.WriteUint32Le(uint32(args[3]), uint32(read))
	return 0
}

// fdstatGet says that the input is a stream that does not block.
func fdstatGet(m *Machine, mem api.Memory, args []uint64) errno {
	if uint32(args[0]) > 2 && m.disk == nil {
		return badf
	}
	s, _ := mem.Read(uint32(args[1]), 24)
	clear(s)
	switch s[0] = 4; uint32(args[0]) { // a file
	case 0, 1, 2:
		s[0] = 2 // a device of characters
	case 3:
		s[0] = 3 // the folder
	}
	if uint32(args[0]) == 0 {
		s[2] = 4 // does not block
	}
	for i := 8; i < 24; i++ {
		s[i] = 0xFF // all rights
	}
	return 0
}

func send(m *Machine, mem api.Memory, args []uint64) errno {
	body, _ := mem.Read(uint32(args[3]), uint32(args[4]))
	m.w.Send(Message{
		From: m.ID, To: int(uint32(args[0])), Kind: byte(args[1]), Call: uint32(args[2]), Body: append([]byte(nil), body...),
	})
	return 0
}

// arguments gives a machine its arguments, with a zero behind each, as far as there is room for
// them. It answers how long they are.
func arguments(m *Machine, mem api.Memory, args []uint64) errno {
	var all []byte
	for _, arg := range m.args {
		all = append(append(all, arg...), 0)
	}
	room, _ := mem.Read(uint32(args[0]), uint32(args[1]))
	copy(room, all)
	return errno(len(all))
}

func note(m *Machine, mem api.Memory, args []uint64) errno {
	b, _ := mem.Read(uint32(args[0]), uint32(args[1]))
	m.w.Note(m, append([]byte(nil), b...))
	return 0
}
