package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"

	"attune.io/attune/test/cluster/internal/spec"
	"golang.org/x/sys/unix"
)

// execs runs programs on a VM node for the harness.
type execs struct {
	supervisor *supervisor
	count      atomic.Int64
}

func (x *execs) serve(w http.ResponseWriter, r *http.Request) {
	var e spec.Exec
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		answer(w, err)
		return
	}
	result, err := x.run(e)
	if err != nil {
		answer(w, err)
		return
	}
	_ = json.NewEncoder(w).Encode(result)
}

// run returns when the program has ended.
func (x *execs) run(e spec.Exec) (spec.Result, error) {
	var files [3]*os.File // in memory, so that no reader or writer has to keep up
	var fds []uintptr
	for i := range files {
		fd, err := unix.MemfdCreate("exec", unix.MFD_CLOEXEC)
		if err != nil {
			return spec.Result{}, err
		}
		files[i] = os.NewFile(uintptr(fd), "exec")
		defer files[i].Close()
		fds = append(fds, uintptr(fd))
	}
	if _, err := files[0].Write(e.Stdin); err != nil {
		return spec.Result{}, err
	}
	if _, err := files[0].Seek(0, io.SeekStart); err != nil {
		return spec.Result{}, err
	}
	p := spec.Process{Name: "exec-" + strconv.FormatInt(x.count.Add(1), 10), Path: e.Args[0], Args: e.Args, Env: e.Env}
	c, err := x.supervisor.fork(p, 0, fds)
	if err != nil {
		return spec.Result{}, err
	}
	<-c.done
	x.supervisor.forget(p.Name)
	stdout, err1 := contents(files[1])
	stderr, err2 := contents(files[2])
	return spec.Result{Code: c.Result, Stdout: stdout, Stderr: stderr}, errors.Join(err1, err2)
}

func contents(file *os.File) ([]byte, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// runVMExec runs a program on a VM node, with our input, as if it ran here: network namespace, node's index, program,
// arguments.
func runVMExec(args []string) error {
	index, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	body, err := json.Marshal(spec.Exec{Args: args[2:], Env: os.Environ(), Stdin: stdin})
	if err != nil {
		return err
	}
	dial := func(context.Context, string, string) (net.Conn, error) { return dialIn(args[0], VMControl(index)) }
	client := http.Client{Transport: &http.Transport{DialContext: dial}}
	response, err := client.Post("http://node/exec", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s refused: %s", spec.NodeName(index), reason)
	}
	var result spec.Result
	if err := json.NewDecoder(response.Body).Decode(&result); err != nil {
		return err
	}
	_, err1 := os.Stdout.Write(result.Stdout)
	_, err2 := os.Stderr.Write(result.Stderr)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	os.Exit(result.Code)
	return nil
}

// dialIn connects within that network namespace; the thread is never used for anything else.
func dialIn(namespace, address string) (net.Conn, error) {
	network, err := os.Open(namespace)
	if err != nil {
		return nil, err
	}
	defer network.Close()
	runtime.LockOSThread()
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	return (&net.Dialer{FallbackDelay: -1}).Dial("tcp", address)
}
