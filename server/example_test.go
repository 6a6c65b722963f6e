package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store/memory"
)

// An application mounts the API and the dashboard of its engine.
func ExampleNew() {
	ctx := context.Background()
	quiet := slog.New(slog.DiscardHandler)
	engine, err := stet.New(ctx, stet.Config{Store: memory.New(), Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}

	h, err := server.New(engine, server.Options{Access: []access.Authenticator{server.Tokens(engine)}, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/stet/", http.StripPrefix("/ops/stet", h))
	web := httptest.NewServer(mux)
	defer web.Close()

	token, err := stet.TokensOf(engine).Create(ctx, stet.TokenInfo{Name: "ada", Role: "operator"}, stet.Act{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.New(web.URL+"/ops/stet/", client.Options{Token: token})
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := c.Info(ctx)
	fmt.Println(info.Identity.Name, info.Identity.Rights, err)
	// Output: ada [read values call operate] <nil>
}
