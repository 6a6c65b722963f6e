package stet_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet"
)

// A token for a dashboard on a wall, which shows runs and no values, for three months. It is
// revoked when the wall is taken down.
func ExampleTokensOf() {
	engine, stop := background()
	defer stop()
	ctx := context.Background()

	tokens := stet.TokensOf(engine)
	token, err := tokens.Create(ctx, stet.TokenInfo{
		Name: "wall", Role: "viewer", Expires: time.Now().AddDate(0, 3, 0),
	}, stet.Act{By: "alice"})
	fmt.Println(strings.HasPrefix(token, "stet_"), err)

	list, err := tokens.List(ctx)
	for _, t := range list {
		fmt.Println(t.Name, t.Role, err)
		fmt.Println(tokens.Revoke(ctx, t.ID, stet.Act{By: "alice", Why: "the wall is painted"}))
	}
	list, err = tokens.List(ctx)
	fmt.Println(len(list), err)
	// Output:
	// true <nil>
	// wall viewer <nil>
	// <nil>
	// 0 <nil>
}
