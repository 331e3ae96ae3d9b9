package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/certs"
	"attune.io/attune/internal/policy"
	"attune.io/attune/webhook/validation"
)

// asChild runs the test binary as a webhook in its own process, whose memory can be read.
const asChild = "ATTUNE_TEST_WEBHOOK"

// mostResident is the highest memory that the webhook may ever have, in kB, under the largest and most expensive
// reviews. The chart's limit is 512Mi.
const mostResident = 200 << 10

// TestReviewsStayWithinMemory posts reviews of nearly 4 MiB with the most expensive mistakes known, six at once, and
// reads none of the answers before all have arrived.
func TestReviewsStayWithinMemory(t *testing.T) {
	if os.Getenv(asChild) != "" {
		serveAsChild(t)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestReviewsStayWithinMemory$")
	child.Env = append(os.Environ(), asChild+"=1", "GOGC=50", fmt.Sprint("GOMEMLIMIT=", 512<<20/10*9))
	child.Stderr = os.Stderr
	stop, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewReader(out)
	address, err := lines.ReadString('\n')
	require.NoError(t, err)

	review := func(spec string) []byte {
		return []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","kind":{"group":"attune.io","version":"v1alpha1","kind":"AttuneDefaults"},` +
			`"object":{"apiVersion":"attune.io/v1alpha1","kind":"AttuneDefaults","metadata":{"name":"default"},"spec":` + spec + `}}}`)
	}
	long := strings.Repeat("<", 3900<<10)
	clients := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answered := 0
	for _, body := range [][]byte{
		review(`{"sloGuardrails":[{"name":"` + long + `","query":"","threshold":"","comparison":""}]}`),
		review(`{"updateStrategy":{"schedule":{"daysOfWeek":["x"` + strings.Repeat(`,""`, 130_000) + `]}}}`),
		review(`{"updateStrategy":{"schedule":{"timezone":"` + long + `"}}}`),
		review(`{"strategy":"` + long + `"}`),
		review(`{"weight":` + strings.Repeat("9", 3900<<10) + `}`),
	} {
		for range 3 {
			answers := make(chan *http.Response, 6)
			var posts sync.WaitGroup
			for range cap(answers) {
				posts.Go(func() {
					if r, err := clients.Post("https://"+strings.TrimSpace(address)+validation.Path, "application/json", bytes.NewReader(body)); err == nil { //nolint:bodyclose // closed where answers are read
						answers <- r // an error: the server was busy and closed the connection
					}
				})
			}
			posts.Wait()
			close(answers)
			for r := range answers {
				n, err := io.Copy(io.Discard, r.Body)
				assert.NoError(t, err)
				assert.NoError(t, r.Body.Close())
				assert.LessOrEqual(t, n, int64(mostAnswer))
				if r.StatusCode == http.StatusOK {
					answered++
				}
			}
		}
	}
	assert.Positive(t, answered)
	require.NoError(t, stop.Close())
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, child.Wait())
	var resident int
	_, err = fmt.Sscanf(line, "VmHWM: %d kB", &resident)
	require.NoError(t, err, line)
	t.Logf("%d of %d reviews answered, the rest refused as busy; at most %d kB resident", answered, 5*3*6, resident)
	assert.LessOrEqual(t, resident, mostResident)
}

// serveAsChild serves until stdin ends, then prints the highest memory of the process.
func serveAsChild(t *testing.T) {
	ballast := bytes.Repeat([]byte{1}, 64<<20) // the caches of a small cluster
	defer runtime.KeepAlive(ballast)
	debug.FreeOSMemory()
	pair, err := certs.Own(time.Now(), "localhost")
	require.NoError(t, err)
	scheme := kruntime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	s := New(Options{Bytes: budget, Metrics: NewMetrics(prometheus.NewRegistry()),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }})
	s.Register(validation.Path, validation.New(scheme, fake.NewClientBuilder().WithScheme(scheme).Build(), policy.Operator{Steps: policy.DefaultSteps}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	fmt.Println(listener.Addr())
	go func() { _ = s.serve(t.Context(), listener) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.SplitSeq(string(status), "\n") {
		if strings.HasPrefix(line, "VmHWM:") {
			fmt.Println(line)
		}
	}
}
