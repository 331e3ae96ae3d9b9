package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"attune.io/attune/internal/ports"
)

const (
	// path is where the pages are. Nothing else of the leader is shown.
	path = "/ui/"
	// most requests are under way at a time; the leader answers four, of all users.
	most = 2
	// mostWaiting requests wait until one of these ends: a page and its links in a few tabs.
	mostWaiting = 6
	// timeout is how long a browser may take to ask, and longest what an answer may take with its wait.
	timeout, longest = 10 * time.Second, time.Minute
)

// UIOptions of Run.
type UIOptions struct {
	// Port on 127.0.0.1; 0: any that is free.
	Port int
	// Open opens the page in a browser.
	Open bool
	// Fetch asks the leader for a path.
	Fetch func(ctx context.Context, path string) (Answer, error)
	// Out receives the address, ErrOut what is no answer.
	Out, ErrOut io.Writer
}

// ShowUI serves the page until the context ends, and returns nil then. It asks for the first page before it listens: whoever
// may not see it is told why.
func ShowUI(ctx context.Context, o UIOptions) error {
	answer, err := o.Fetch(ctx, path)
	switch {
	case err != nil:
		return err
	case answer.Status == http.StatusNotFound:
		return errors.New("the leader has no web page: update the operator")
	case answer.Status != http.StatusOK:
		return fmt.Errorf("the leader does not show its page: %s", answer.Line())
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("%w: choose another port with --port", err)
	}
	address := "http://" + listener.Addr().String() + path
	fmt.Fprintln(o.Out, address)
	fmt.Fprintln(o.ErrOut, "Every user of this machine can read the page there. Ctrl-C ends it.")
	if o.Open {
		if err := open(address); err != nil {
			fmt.Fprintf(o.ErrOut, "no browser was opened: %v\n", err)
		}
	}
	server := &http.Server{Handler: UIHandler(o.Fetch), ReadHeaderTimeout: timeout, ReadTimeout: timeout, WriteTimeout: longest, IdleTimeout: longest, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// passed are the headers of the leader's that reach the browser.
var passed = []string{
	"Content-Type", "Content-Security-Policy", "Referrer-Policy", "X-Content-Type-Options", "X-Frame-Options",
	"Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy", "Cache-Control",
}

// own is the policy of this side. A browser obeys it beside the leader's: whatever answers at that port, no script runs.
const own = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// UIHandler forwards GET and HEAD of pages, most at a time, and answers 429 where mostWaiting wait already. It refuses hosts
// that are not loopback, and what pages of other origins ask.
func UIHandler(fetch func(ctx context.Context, path string) (Answer, error)) http.Handler {
	free := make(chan struct{}, most)
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		case <-r.Context().Done():
			return
		}
		answer, err := fetch(r.Context(), r.URL.RequestURI())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		forward(w, answer)
	})
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler(path, http.StatusFound))
	mux.Handle("GET "+path, ports.AtMost(most+mostWaiting, page, http.StatusTooManyRequests, "too many requests wait already: ask again in a moment"))
	local := ports.Local(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", own)
		local.ServeHTTP(w, r)
	})
}

// forward writes an answer of the leader's.
func forward(w http.ResponseWriter, answer Answer) {
	for _, name := range passed {
		for _, value := range answer.Header.Values(name) {
			if name == "Content-Security-Policy" {
				w.Header().Add(name, value)
				continue
			}
			w.Header().Set(name, value)
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.Body)))
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
}

// open opens an address in the user's browser, and does not wait for it. The browser outlives this program.
func open(address string) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	opener := exec.Command(command[0], append(command[1:], address)...)
	if err := opener.Start(); err != nil {
		return err
	}
	go func() { _ = opener.Wait() }()
	return nil
}
