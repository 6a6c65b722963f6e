module cases

go 1.26.0

require (
	github.com/google/uuid v1.6.0
	github.com/stet-run/stet v0.0.0
	golang.org/x/sync v0.23.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/fxamacker/cbor/v2 v2.9.6 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/netresearch/go-cron v0.9.1 // indirect
	github.com/x448/float16 v0.8.4 // indirect
)

replace github.com/stet-run/stet => ../..
