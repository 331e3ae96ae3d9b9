package integration

import "testing"

func TestUp(t *testing.T) { t.Log(server.Host) }
