package box

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/tetratelabs/wazero/api"
)

// state is that of a machine of a program which has initialised itself: its runtime has begun, and
// the variables of its packages have their first values. This takes as long as all else that most
// machines do, and is the same for each. So one machine does it, and each life begins from there.
//
// A program that is a library returns after that, to be called later. All that it is then stands in
// its memory and in its globals.
type state struct {
	memory  *image
	pages   uint32
	globals []uint64
}

var errWaits = errors.New("the program waits before its life has begun")

// initialise lets a machine outside of all worlds initialise itself.
func (p *Program) initialise() (*state, error) {
	m := &Machine{
		Name: "initialise", w: New(p, 0), program: p, disk: NewDisk(), rate: 1, random: rand.NewChaCha8([32]byte{}),
		yields: func(struct{}) bool { panic(errWaits) },
	}
	m.disk.call = m.call
	ctx := context.WithValue(context.Background(), machineKey{}, m)
	module, err := p.begin(ctx, m, p.data)
	if err != nil {
		return nil, err
	}
	defer module.Close(ctx)
	if _, err := module.ExportedFunction(initialise).Call(ctx); err != nil {
		return nil, fmt.Errorf("initialise a machine: %w", err)
	}
	s := &state{pages: module.Memory().Size() >> 16}
	for i := 0; ; i++ {
		g := module.ExportedGlobal(globalName(i))
		if g == nil {
			break
		}
		s.globals = append(s.globals, g.Get())
	}
	all, _ := module.Memory().Read(0, module.Memory().Size())
	s.memory, err = newImage(0, all)
	return s, err
}

// restore makes a machine whose memory begins with the image one of this state.
func (s *state) restore(module api.Module) error {
	mem := module.Memory()
	if _, ok := mem.Grow(s.pages - mem.Size()>>16); !ok {
		return fmt.Errorf("a machine has no room for %d pages of memory", s.pages)
	}
	s.memory.fill(mem)
	for i, v := range s.globals {
		module.ExportedGlobal(globalName(i)).(api.MutableGlobal).Set(v)
	}
	return nil
}
