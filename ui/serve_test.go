package ui_test

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"attune.io/attune/ui"
)

var serves = flag.Bool("serve", false, "serve the pages of the clusters that are made up, for tests in a browser, until stdin ends")

func TestMain(m *testing.M) {
	flag.Parse()
	if !*serves {
		os.Exit(m.Run())
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve serves the pages of each cluster at /ui/ on its own port. It prints a line with name and address for each, and
// ends when stdin does.
func serve() error {
	for _, c := range []struct {
		name   string
		caches Caches
	}{{"small", Small()}, {"sourceless", Sourceless()}, {"hostile", Hostile()}, {"empty", Empty()}, {"long", Long()}, {"great", Great(5000)}} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(c.name, "http://"+listener.Addr().String()+ui.Path)
		failed := func(path string, err error) { fmt.Fprintln(os.Stderr, path, err) }
		server := &http.Server{Handler: ui.NewHandler(c.caches, failed), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }()
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
