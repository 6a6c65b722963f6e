module github.com/stet-run/stet/examples

go 1.26.0
