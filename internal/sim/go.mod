module github.com/stet-run/stet/internal/sim

go 1.26.0

require github.com/tetratelabs/wazero v1.12.0

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/fxamacker/cbor/v2 v2.9.6 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/ncruces/go-sqlite3 v0.35.4 // indirect
	github.com/ncruces/go-sqlite3-wasm/v5 v5.0.35304 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	github.com/netresearch/go-cron v0.9.1 // indirect
	github.com/x448/float16 v0.8.4 // indirect
)

require golang.org/x/sys v0.47.0
