package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Forward hands each connection to the listener, which is on this machine, on to a literal address inside the cluster,
// until the context ends. It closes the listener, and returns nil then.
func (c *Cluster) Forward(ctx context.Context, listener net.Listener, address string) error {
	return forward(ctx, listener, func(ctx context.Context) (net.Conn, error) { return c.Dial(ctx, "tcp", address) })
}

// forward closes what it opened before it returns. A connection that cannot be handed on is closed, and the next one is
// taken.
func forward(ctx context.Context, listener net.Listener, dial func(context.Context) (net.Conn, error)) error {
	var open sync.WaitGroup
	defer open.Wait()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		near, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		open.Go(func() { hand(ctx, near, dial) })
	}
}

// hand a connection on, both ways, until one side has said all or the context ends.
func hand(ctx context.Context, near net.Conn, dial func(context.Context) (net.Conn, error)) {
	defer near.Close()
	far, err := dial(ctx)
	if err != nil {
		return
	}
	defer far.Close()
	stop := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
	defer stop()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(near, far)
		near.Close() // the one who asks is told that nothing more comes
	}()
	_, _ = io.Copy(far, near)
	far.Close()
	<-back
}
