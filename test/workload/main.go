// Command workload is the program of the image local/workload:dev: it uses as
// much CPU and memory as it is told to, so that tests and demos have something
// to size.
//
// CPU_MILLICORES and MEMORY_MIB say what it uses from the start, GET
// /set?cpu=<millicores>&memory=<MiB> on port 8080 (or $PORT) changes either, GET /healthz
// is its probe. CHILD=1 makes the memory a child process's: when that is
// killed, the workload lives on and starts another. /set?file=<MiB> keeps a
// file of that size in $FILE_DIR: page cache on a disk, memory in a memory volume. It gives up after
// 5 seconds where $CPU_REQUEST is less than $NEEDS_MILLICORES.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// childFlag is the argument that makes the program the memory-holding child.
const childFlag = "hold-memory"

// holder is whoever holds the memory: this process or a child.
type holder interface{ set(mib int) error }

func main() {
	if len(os.Args) > 1 && os.Args[1] == childFlag {
		runChild(os.Stdin)
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
}

func run() error {
	cpu, err := number(os.Getenv("CPU_MILLICORES"))
	if err != nil {
		return fmt.Errorf("CPU_MILLICORES: %w", err)
	}
	mib, err := number(os.Getenv("MEMORY_MIB"))
	if err != nil {
		return fmt.Errorf("MEMORY_MIB: %w", err)
	}
	if err := enough(os.Getenv("CPU_REQUEST"), os.Getenv("NEEDS_MILLICORES")); err != nil {
		time.Sleep(startsWithin)
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	var memory holder = &ballast{}
	if os.Getenv("CHILD") == "1" {
		memory = keepChild(ctx)
	}
	b := &burner{}
	b.set(cpu)
	if err := memory.set(mib); err != nil {
		return err
	}
	return serve(ctx, b, memory, &file{dir: os.Getenv("FILE_DIR")})
}

// startsWithin is how long the program tries to start before it gives up.
const startsWithin = 5 * time.Second

// enough CPU to start with, in millicores; empty: nothing is needed.
func enough(has, needs string) error {
	if needs == "" {
		return nil
	}
	request, err := number(has)
	if err != nil {
		return fmt.Errorf("CPU_REQUEST: %w", err)
	}
	least, err := number(needs)
	if err != nil {
		return fmt.Errorf("NEEDS_MILLICORES: %w", err)
	}
	if request < least {
		return fmt.Errorf("%d millicores are too few to start with, %d are needed", request, least)
	}
	return nil
}

// serve answers until ctx ends, and then ends at once: nobody waits for a workload.
func serve(ctx context.Context, cpu *burner, memory, disk holder) error {
	server := &http.Server{Addr: ":" + port(), Handler: handler(cpu, memory, disk), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler(cpu *burner, memory, disk holder) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /set", func(w http.ResponseWriter, r *http.Request) {
		if err := change(r, "cpu", func(n int) error { cpu.set(n); return nil }); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := change(r, "memory", memory.set); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := change(r, "file", disk.set); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// change hands a query parameter to set; one that is absent changes nothing.
func change(r *http.Request, key string, set func(int) error) error {
	value := r.FormValue(key)
	if value == "" {
		return nil
	}
	n, err := number(value)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return set(n)
}

func number(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a whole number of zero or more", s)
	}
	return n, nil
}

// port is 8080, or $PORT where two workloads share a pod.
func port() string {
	if p := os.Getenv("PORT"); p != "" {
		return p
	}
	return "8080"
}
