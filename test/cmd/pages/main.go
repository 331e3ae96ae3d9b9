// Command pages serves the pages of clusters that are made up, for tests in a browser: each cluster at /ui/ on a port of its own. It
// prints a line with name and address for each, and ends when its stdin does.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"attune.io/attune/ui"
	"attune.io/attune/ui/made"
)

func main() {
	for _, c := range []struct {
		name   string
		caches made.Caches
	}{{"small", made.Small()}, {"sourceless", made.Sourceless()}, {"hostile", made.Hostile()}, {"empty", made.Empty()}, {"long", made.Long()}, {"great", made.Great(5000)}} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(c.name, "http://"+listener.Addr().String()+ui.Path)
		failed := func(path string, err error) { fmt.Fprintln(os.Stderr, path, err) }
		server := &http.Server{Handler: ui.NewHandler(c.caches, failed), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
