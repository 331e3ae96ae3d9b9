// Command bursts measures what a CPU limit does to bursts of CPU. It runs the same bursts in control groups with the same
// request and different limits, as cpu.limits of a policy sets them, and prints a table: the share of throttled periods and
// how long a burst takes. It needs root and cgroup v1 or v2, no cluster:
//
//	go run ./bursts
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

var (
	root    = flag.String("cgroup", "", "folder of a control group with the controller cpu; default: the root of cgroup v2, or of cpu in v1")
	request = flag.Int("request", 100, "CPU request in millicores")
	burst   = flag.Duration("burst", 50*time.Millisecond, "CPU time of a burst")
	every   = flag.Duration("every", 500*time.Millisecond, "time between the starts of two bursts")
	count   = flag.Int("count", 120, "bursts for each limit")
	alone   = flag.Bool("alone", false, "give the bursts the highest CPU weight, so that a busy machine shows the effect of the limits alone")
	child   = flag.Bool("child", false, "run the bursts in this process")
)

// period of CPU limits: the kubelet's default (cpuCFSQuotaPeriod).
const period = 100 * time.Millisecond

// limits are those of a container whose template has a limit of twice its request, by values of cpu.limits, in thousandths
// of the request; 0: none.
var limits = []struct {
	value       string
	thousandths int
}{{"Keep (ratio 2)", 2000}, {`{ratio: "3"}`, 3000}, {`{ratio: "6"}`, 6000}, {"Remove", 0}}

func main() {
	flag.Parse()
	run := measure
	if *child {
		run = burstsHere
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bursts:", err)
		os.Exit(1)
	}
}

func measure() error {
	parent, version := *root, 2
	if parent == "" {
		parent = "/sys/fs/cgroup"
	}
	if _, err := os.Stat(filepath.Join(parent, "cgroup.controllers")); err != nil {
		version = 1
		if *root == "" {
			parent = "/sys/fs/cgroup/cpu"
		}
	}
	if version == 2 {
		if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
			return fmt.Errorf("enabling the controller cpu: %w", err)
		}
	}
	fmt.Printf("cgroup v%d, %d CPUs, request %dm, %d bursts of %s CPU every %s, highest weight: %t\n\n", version, runtime.NumCPU(), *request, *count, *burst, *every, *alone)
	fmt.Printf("| `cpu.limits` | limit | throttled periods | p50 of a burst | p99 of a burst |\n|---|---|---|---|---|\n")
	for i, l := range limits {
		g := group{dir: filepath.Join(parent, fmt.Sprintf("bursts-%d-%d", os.Getpid(), i)), version: version}
		took, throttled, err := g.measure(*request * l.thousandths / 1000)
		if err != nil {
			return fmt.Errorf("%s: %w", l.value, err)
		}
		limit := "none"
		if l.thousandths > 0 {
			limit = fmt.Sprintf("%dm", *request*l.thousandths/1000)
		}
		fmt.Printf("| `%s` | %s | %.0f %% | %s | %s |\n", l.value, limit, throttled*100, quantile(took, 0.5), quantile(took, 0.99))
	}
	return nil
}

// quantile of durations, in whole milliseconds: the smallest that at least the share q does not exceed.
func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	at := min(len(sorted)-1, max(0, int(q*float64(len(sorted))+0.999999)-1))
	return sorted[at].Round(time.Millisecond)
}

// group is a control group of its own.
type group struct {
	dir     string
	version int
}

// measure runs the bursts in the group, with a limit in millicores (0: none). It returns how long each took, and the share
// of periods in which the group was throttled.
func (g group) measure(millicores int) (took []time.Duration, throttled float64, err error) {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, os.Remove(g.dir)) }()
	if err := g.limit(millicores); err != nil {
		return nil, 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, 0, err
	}
	// The shell moves itself into the group before the program's first thread exists.
	command := exec.Command("/bin/sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, g.dir, self, "-child",
		"-burst", burst.String(), "-every", every.String(), "-count", strconv.Itoa(*count))
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("running the bursts: %w", err)
	}
	for _, line := range strings.Fields(string(out)) {
		d, err := time.ParseDuration(line)
		if err != nil {
			return nil, 0, err
		}
		took = append(took, d)
	}
	periods, hit, err := g.periods()
	return took, float64(hit) / float64(max(1, periods)), err
}

// limit writes request and limit as the kubelet does.
func (g group) limit(millicores int) error {
	quota := strconv.Itoa(millicores * int(period.Microseconds()) / 1000)
	shares := *request * 1024 / 1000
	if *alone {
		shares = 262144
	}
	files := map[string]string{"cpu.shares": strconv.Itoa(max(2, shares)), "cpu.cfs_quota_us": quota}
	if g.version == 2 {
		files = map[string]string{"cpu.weight": strconv.Itoa(max(1, 1+(shares-2)*9999/262142)), "cpu.max": quota}
	}
	for name, text := range files {
		if millicores == 0 && name == "cpu.max" {
			text = "max"
		} else if millicores == 0 && name == "cpu.cfs_quota_us" {
			text = "-1"
		}
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0); err != nil {
			return err
		}
	}
	return nil
}

// periods counts the periods in which the group ran, and those in which it was throttled.
func (g group) periods() (all, throttled int, err error) {
	text, err := os.ReadFile(filepath.Join(g.dir, "cpu.stat"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.Atoi(value)
		switch name {
		case "nr_periods":
			all = n
		case "nr_throttled":
			throttled = n
		}
	}
	return all, throttled, nil
}

// burstsHere runs the bursts in this process and prints how long each took.
func burstsHere() error {
	runtime.LockOSThread() // the CPU clock is the thread's
	for began := time.Now(); *count > 0; *count-- {
		start := time.Now()
		for end := threadCPU() + *burst; threadCPU() < end; {
			for i := 0; i < 10000; i++ { // the compiler keeps empty loops
			}
		}
		fmt.Println(time.Since(start))
		began = began.Add(*every)
		time.Sleep(time.Until(began))
	}
	return nil
}

// threadCPU is the CPU time that this thread has used.
func threadCPU() time.Duration {
	const clockThreadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPU, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
