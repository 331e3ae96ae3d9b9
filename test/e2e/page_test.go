package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/answers"
	"attune.io/attune/recommender"
	"attune.io/attune/test/deploy"
)

// onThePage: kubectl attune ui shows the fleet and the workload through the API server and the kubelet of the leader, and the
// target that is printed there is what kubectl attune explain, the AttuneRecommendation and the metrics say.
func onThePage(t *testing.T, o owner) {
	address := pageServed(t)
	require.Contains(t, fetched(t, address), `href="/ui/ns/`+o.GetNamespace()+`"`, "the fleet")
	require.Contains(t, fetched(t, address+"nodes"), `href="/ui/nodes/`+nodeName(1)+`"`)
	about := string(o.kind) + "/" + o.GetName()
	require.NoError(t, mayScrape(t.Context(), "e2e-scraper"))
	eventually(t, "the same target on the page, in the explanation, in the object and in the metrics", func() error {
		page := fetched(t, address+"ns/"+o.GetNamespace()+"/"+about)
		told := explained(t, about, "-n", o.GetNamespace())
		rec, err := o.recommendation(t.Context())
		if err != nil {
			return err
		}
		stored := rec.Spec.Containers[0].Target
		if told.Target.CPURequest == nil || told.Target.MemoryRequest == nil || stored.CPURequest == nil || stored.MemoryRequest == nil {
			return fmt.Errorf("no target: %v, %v", told.Target, stored)
		}
		cpu, memory := printed(page, told.Name, recommender.CPU), printed(page, told.Name, recommender.Memory)
		if cpu != *told.Target.CPURequest || stored.CPURequest.String() != cpu {
			return fmt.Errorf("CPU %q on the page, %s explained, %s stored", cpu, *told.Target.CPURequest, stored.CPURequest)
		}
		if memory != answers.Readable(recommender.Memory, *told.Target.MemoryRequest) || memory != answers.Readable(recommender.Memory, stored.MemoryRequest.String()) {
			return fmt.Errorf("memory %q on the page, %s explained, %s stored", memory, *told.Target.MemoryRequest, stored.MemoryRequest)
		}
		return errors.Join(
			exposed(t, "attune_recommendation_cpu_cores", o, told.Name, stored.CPURequest.AsApproximateFloat64()),
			exposed(t, "attune_recommendation_memory_bytes", o, told.Name, stored.MemoryRequest.AsApproximateFloat64()),
		)
	})
}

// exposed is nil where one pod of the operator exposes this value of a container's metric.
func exposed(t *testing.T, metric string, o owner, container string, want float64) error {
	t.Helper()
	labels := fmt.Sprintf("{container=%q,kind=%q,namespace=%q,workload=%q} ", container, o.kind, o.GetNamespace(), o.GetName())
	pods := &corev1.PodList{}
	require.NoError(t, env.client.List(t.Context(), pods, client.InNamespace(deploy.Namespace), client.MatchingLabels{"app.kubernetes.io/name": "attune"}))
	var seen []string
	for i := range pods.Items {
		_, text, err := metricsOf(t.Context(), &pods.Items[i], "e2e-scraper")
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			value, found := strings.CutPrefix(line, metric+labels)
			if !found {
				continue
			}
			if read, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && math.Abs(read-want) <= 1e-9*want {
				return nil
			}
			seen = append(seen, value)
		}
	}
	return fmt.Errorf("%s%sis %v, and %v is stored", metric, labels, seen, want)
}

// pageServed starts kubectl attune ui, until the test ends, and returns its address.
func pageServed(t *testing.T) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	serve := env.cluster.Command(ctx, env.plugin, "ui", "--no-open")
	var said bytes.Buffer
	serve.Stderr = &said
	out, err := serve.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, serve.Start())
	t.Cleanup(func() {
		stop()
		_ = serve.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "kubectl attune ui said nothing, and ended or was ended")
	return strings.TrimSpace(address)
}

// fetched is a page that is there.
func fetched(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	answer, err := env.cluster.HTTPClient().Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(body))
	return string(body)
}

// printed is the target of a container's request on the page of its workload; empty: none is.
func printed(page, container string, r recommender.Resource) string {
	cell := `<td class="number">([^<]*)</td>`
	found := regexp.MustCompile(`(?s)aria-label="Amounts of ` + container + `, ` + r.String() + `">.*?<th scope="row">request</th>` + cell + cell + cell).FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	return found[3]
}
