// Command demo shows the main job of attune on a cluster of its own, from nothing: running pods are
// resized in place, new pods are born at their size, a size that harms is taken back and not tried
// again. Whatever it says is read from the cluster. With a terminal it leaves the cluster up to look
// around; without one it removes it, and its exit code says whether all of that was seen.
package main

import (
	"context"
	"errors"
	"fmt"
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
	// SIGPIPE too: where nobody reads any more, the cluster is removed like after Ctrl-C.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	log.SetLogger(logr.Discard()) // or controller-runtime complains of its absence, in the middle of the show
	s := &screen{out: os.Stdout, terminal: isTerminal(os.Stdin) && isTerminal(os.Stdout)}
	if err := show(ctx, s); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
