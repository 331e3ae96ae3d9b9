package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"attune.io/attune/certs"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

// operator is its process.
type operator struct {
	cmd  *exec.Cmd
	dir  string
	port int
	// authority signed its webhooks' certificate.
	authority []byte
}

// start the operator with the API server's own rights.
func (s *site) start(ctx context.Context) (*operator, error) {
	project, err := cluster.ProjectDir()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "attune-load-")
	if err != nil {
		return nil, err
	}
	o := &operator{dir: dir}
	s.ended = append(s.ended, o.stop)
	program := filepath.Join(dir, "attune")
	if err := deploy.Binary(ctx, project, "./cmd/attune", program); err != nil {
		return nil, err
	}
	issued, err := certs.Issue(time.Now(), certs.Replace, nil, []string{"localhost"})
	if err != nil {
		return nil, err
	}
	o.authority = issued["ca.crt"]
	for name, content := range issued {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, s.env.KubeConfig, 0o600); err != nil {
		return nil, err
	}
	if o.port, err = freePort(); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	o.cmd = exec.Command(program, "--leader-elect=false", "--namespace=default", "--cert-dir="+dir, "--webhook-port="+strconv.Itoa(o.port),
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--usage-source=prometheus", "--prometheus-address="+s.server.URL,
		"--usage-interval=5s")
	o.cmd.Env, o.cmd.Stdout, o.cmd.Stderr = append(os.Environ(), "KUBECONFIG="+kubeconfig), log, log
	return o, o.cmd.Start()
}

func (o *operator) stop() error {
	if o.cmd != nil && o.cmd.Process != nil {
		_ = o.cmd.Process.Signal(syscall.SIGTERM)
		_ = o.cmd.Wait() // It was told to end.
	}
	return os.RemoveAll(o.dir)
}

// used is the process's CPU time so far, and its resident memory and the most of it, in MiB.
func (o *operator) used() (cpu time.Duration, rss, most float64, err error) {
	of := fmt.Sprintf("/proc/%d/", o.cmd.Process.Pid)
	stat, err := os.ReadFile(of + "stat")
	if err != nil {
		return 0, 0, 0, errors.Join(errors.New("the operator has ended"), err)
	}
	// Behind the name: state is field 3, user and system time are 14 and 15, in hundredths of a second.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			return 0, 0, 0, err
		}
		cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	status, err := os.ReadFile(of + "status")
	return cpu, kib(string(status), "VmRSS:") / 1024, kib(string(status), "VmHWM:") / 1024, err
}

func kib(status, name string) float64 {
	_, rest, _ := strings.Cut(status, name)
	var n float64
	_, _ = fmt.Sscan(rest, &n)
	return n
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
