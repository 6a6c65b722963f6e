#include "textflag.h"

// func calledFrom(pc uintptr) bool
//
// A frame has its caller's frame pointer at BP, and the address to which it returns above that.
TEXT ·calledFrom(SB), NOSPLIT|NOFRAME, $0-9
	MOVQ pc+0(FP), AX
	MOVQ 8(R14), CX // where the goroutine's stack ends
	SUBQ $16, CX
	MOVQ SP, BX
	MOVQ BP, DX
next:
	CMPQ DX, BX
	JLS  none
	CMPQ DX, CX
	JHI  none
	CMPQ AX, 8(DX)
	JEQ  found
	MOVQ DX, BX
	MOVQ 0(DX), DX
	JMP  next
found:
	MOVB $1, ret+8(FP)
	RET
none:
	MOVB $0, ret+8(FP)
	RET
