// Command demo shows the main job of attune on a cluster of its own, from nothing: running pods are
// resized in place, new pods are born at their size, a size that harms is taken back and not tried
// again. Whatever it says is read from the cluster. With a terminal it leaves the cluster up to look
// around; without one it removes it, and its exit code says whether all of that was seen.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Where go run, which started us, is ended and we are not told, nobody is left who would want to see more.
func init() { _ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0) }

func main() {
	ctx, cancel := interrupted()
	defer cancel(nil)
	log.SetLogger(logr.Discard()) // or controller-runtime complains of its absence, in the middle of the show
	s := &screen{out: read{os.Stdout, cancel}, terminal: isTerminal(os.Stdin) && isTerminal(os.Stdout)}
	if err := show(ctx, s); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// interrupted is a context that ends when the demo is told to end. SIGPIPE says nothing: a connection that was closed
// raises it as well; see read.
func interrupted() (context.Context, context.CancelCauseFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(ctx, stop)
	return ctx, cancel
}

// read is where somebody reads. Where nobody does any more, the cluster is removed like after Ctrl-C.
type read struct {
	to     io.Writer
	cancel context.CancelCauseFunc
}

func (r read) Write(p []byte) (int, error) {
	n, err := r.to.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		r.cancel(err)
	}
	return n, err
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
