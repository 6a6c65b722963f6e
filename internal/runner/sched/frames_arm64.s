#include "textflag.h"

// func calledFrom(pc uintptr) bool
//
// A frame has its caller's frame pointer at R29, 8 bytes below its stack pointer, and the
// address to which it returns above that.
TEXT ·calledFrom(SB), NOSPLIT|NOFRAME, $0-9
	MOVD pc+0(FP), R0
	MOVD 8(g), R1 // where the goroutine's stack ends
	SUB  $16, R1
	MOVD RSP, R3
	SUB  $16, R3
	MOVD R29, R2
next:
	CMP  R3, R2
	BLS  none
	CMP  R1, R2
	BHI  none
	MOVD 8(R2), R4
	CMP  R0, R4
	BEQ  found
	MOVD R2, R3
	MOVD 0(R2), R2
	B    next
found:
	MOVD $1, R0
	MOVB R0, ret+8(FP)
	RET
none:
	MOVB ZR, ret+8(FP)
	RET
