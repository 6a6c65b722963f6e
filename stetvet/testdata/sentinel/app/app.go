// Package app makes the config of the workflows of package sentinel.
package app

import (
	"github.com/stet-run/stet"

	"cases/sentinel"
)

var codes = []stet.ErrorCode{stet.Sentinel("known", sentinel.ErrKnown), stet.ErrorType[*sentinel.Refused]("refused")}
