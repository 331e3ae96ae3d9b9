package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"attune.io/attune/certs"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

// operator is its process.
type operator struct {
	cmd  *exec.Cmd
	dir  string
	port int
	// metrics is their address.
	metrics string
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
	metricsPort, err := freePort()
	if err != nil {
		return nil, err
	}
	o.metrics = fmt.Sprintf("127.0.0.1:%d", metricsPort)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	o.cmd = exec.Command(program, "--leader-elect=false", "--namespace=default", "--cert-dir="+dir, "--webhook-port="+strconv.Itoa(o.port),
		"--metrics-bind-address="+o.metrics, "--health-probe-bind-address=0", "--usage-source=prometheus", "--prometheus-address="+s.server.URL,
		"--usage-interval=5s")
	o.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, fmt.Sprintf("MEMORY_LIMIT=%d", s.memory()))
	o.cmd.Stdout, o.cmd.Stderr = log, log
	return o, o.cmd.Start()
}

// memory that the operator's container would be limited to, in bytes: its part of what the largest cluster's may take,
// though all that does not grow with the cluster is to fit too.
func (s *site) memory() int64 {
	return max(128<<20, int64(len(s.parts)*podsEach)*(allMemory/allPods))
}

func (o *operator) stop() error {
	if o.cmd != nil && o.cmd.Process != nil {
		_ = o.cmd.Process.Signal(syscall.SIGTERM)
		_ = o.cmd.Wait() // It was told to end.
	}
	return os.RemoveAll(o.dir)
}

// used is the process's CPU time so far, and its resident memory and the most of it, in MiB. The pages of the program
// are not counted: they are a file's, and go where memory is short.
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
	file := kib(string(status), "RssFile:")
	return cpu, (kib(string(status), "VmRSS:") - file) / 1024, (kib(string(status), "VmHWM:") - file) / 1024, err
}

// admissions is the operator's own histogram of its answers to reviews.
func (o *operator) admissions(ctx context.Context) (*dto.Histogram, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	families, err := parsed(response.Body)
	if err != nil {
		return nil, err
	}
	const name = "attune_admission_duration_seconds"
	family := families[name]
	if family == nil || len(family.Metric) != 1 {
		return nil, fmt.Errorf("the operator has not one %s", name)
	}
	return family.Metric[0].Histogram, nil
}

// parsed metrics, as they are exposed.
func parsed(text io.Reader) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(text)
}

// within says how many of the answers between two looks took no longer than each bound; nothing where there were none.
func within(before, after *dto.Histogram) string {
	all := after.GetSampleCount() - before.GetSampleCount()
	if all == 0 {
		return ""
	}
	var parts []string
	for i, bucket := range after.Bucket {
		bound := time.Duration(bucket.GetUpperBound() * float64(time.Second))
		if n := bucket.GetCumulativeCount() - before.Bucket[i].GetCumulativeCount(); bound >= time.Millisecond && bound <= 25*time.Millisecond {
			parts = append(parts, fmt.Sprintf("%.2f %% in %s", 100*float64(n)/float64(all), bound))
		}
	}
	return "; by the operator's own clock " + strings.Join(parts, ", ")
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
