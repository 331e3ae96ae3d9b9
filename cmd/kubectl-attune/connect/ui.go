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
	// path is the root of the pages. No other path of the leader is forwarded.
	path = "/ui/"
	// most limits the concurrent requests. The leader handles four, for all users together.
	most = 2
	// mostWaiting limits the waiting requests: a page and its links in a few tabs.
	mostWaiting = 6
	// timeout limits the time to read a browser's request, longest the time to respond, including the wait.
	timeout, longest = 10 * time.Second, time.Minute
)

// UIOptions are the options of ShowUI.
type UIOptions struct {
	// Port is a port on 127.0.0.1; 0 means any free port.
	Port int
	// Open opens the page in a browser.
	Open bool
	// Fetch requests a path from the leader.
	Fetch func(ctx context.Context, path string) (Answer, error)
	// Out receives the address, ErrOut all other output.
	Out, ErrOut io.Writer
}

// ShowUI serves the page until the context ends, then returns nil. It requests the first page before it listens, so
// that a user without the rights gets the reason at once.
func ShowUI(ctx context.Context, o UIOptions) error {
	answer, err := o.Fetch(ctx, path)
	switch {
	case err != nil:
		return err
	case answer.Status == http.StatusNotFound:
		return errors.New("the operator has no web page: upgrade the operator")
	case answer.Status != http.StatusOK:
		return fmt.Errorf("the operator cannot show its web page: %s", answer.Line())
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("%w: choose another port with --port", err)
	}
	address := "http://" + listener.Addr().String() + path
	fmt.Fprintln(o.Out, address)
	fmt.Fprintln(o.ErrOut, "Every user of this machine can read the page. Press Ctrl-C to stop.")
	if o.Open {
		if err := open(address); err != nil {
			fmt.Fprintf(o.ErrOut, "cannot open a browser: %v\n", err)
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

// passed are the headers of the leader's response that are forwarded to the browser.
var passed = []string{
	"Content-Type", "Content-Security-Policy", "Referrer-Policy", "X-Content-Type-Options", "X-Frame-Options",
	"Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy", "Cache-Control",
}

// own is this server's Content-Security-Policy. A browser applies it in addition to the leader's: whatever answers on
// that port, no script runs.
const own = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// UIHandler forwards GET and HEAD of pages, most at a time, and responds with 429 if mostWaiting wait already. It
// rejects hosts that are not loopback, and requests from pages of other origins.
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
	mux.Handle("GET "+path, ports.AtMost(most+mostWaiting, page, http.StatusTooManyRequests, "too many requests are waiting: try again in a moment"))
	local := ports.Local(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", own)
		local.ServeHTTP(w, r)
	})
}

// forward writes a response of the leader.
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

// open opens an address in the user's browser without waiting for it. The browser outlives this program.
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
