package life

//go:wasmexport life
func life() { begin() }
