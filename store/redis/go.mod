module github.com/stet-run/stet/store/redis

go 1.26.0

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/redis/rueidis v1.0.79
)

require github.com/anishathalye/porcupine v1.3.1 // indirect

require (
	github.com/google/go-cmp v0.7.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
