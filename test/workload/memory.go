package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const mebibyte = 1 << 20

// ballast is memory that is really resident. It is mapped past Go's own
// allocator, so that what is given up is given back at once.
type ballast struct {
	mu     sync.Mutex
	chunks [][]byte // of one MiB each
}

// set changes the amount held to that many MiB.
func (b *ballast) set(mib int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.chunks) > mib {
		last := len(b.chunks) - 1
		if err := syscall.Munmap(b.chunks[last]); err != nil {
			return err
		}
		b.chunks = b.chunks[:last]
	}
	for len(b.chunks) < mib {
		chunk, err := syscall.Mmap(-1, 0, mebibyte, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return fmt.Errorf("mapping memory: %w", err)
		}
		for i := 0; i < len(chunk); i += os.Getpagesize() {
			chunk[i] = 1
		}
		b.chunks = append(b.chunks, chunk)
	}
	return nil
}

// runChild holds as many MiB as the last line read says, until there are no more lines.
func runChild(lines io.Reader) {
	var b ballast
	for s := bufio.NewScanner(lines); s.Scan(); {
		mib, err := strconv.Atoi(s.Text())
		if err == nil {
			err = b.set(mib)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "workload:", err)
			os.Exit(1)
		}
	}
}

// respawnDelay keeps a child that is killed over and over from taking the
// whole CPU with starting.
const respawnDelay = time.Second

// child is a process that holds the memory and is replaced when it dies.
type child struct{ want chan int }

func keepChild(ctx context.Context) *child {
	c := &child{want: make(chan int)}
	go func() {
		mib := 0
		for ctx.Err() == nil {
			mib = c.one(ctx, mib)
			time.Sleep(respawnDelay)
		}
	}()
	return c
}

func (c *child) set(mib int) error {
	c.want <- mib
	return nil
}

// one runs one child from its start to its end and returns what it was last
// told to hold.
func (c *child) one(ctx context.Context, mib int) int {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", childFlag)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "workload: starting the child, the next try is in", respawnDelay, err)
		return mib
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		fmt.Fprintln(in, mib) // an error means it has died, which ended says
		select {
		case mib = <-c.want:
		case err := <-ended:
			fmt.Fprintln(os.Stderr, "workload: the child ended, another follows:", err)
			return mib
		}
	}
}
