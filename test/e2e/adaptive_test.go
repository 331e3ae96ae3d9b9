package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/test/cluster"
	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// TestAdaptive: a policy with the strategy Adaptive resizes a running pod in place, and keeps the size. What explain tells of it is
// what explain tells of the same usage in a file, to the digit.
func TestAdaptive(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "adaptive", true)
	web := deployment(ctx, t, "adaptive", "web", 1, app("app", asked))
	before := pods(ctx, t, web)[0]
	policy := policyFor(ctx, t, web, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		s.Strategy, s.CPU.MaxAllowed, s.Memory.MaxAllowed = ptr.To(v1alpha1.StrategyAdaptive), nil, nil
	})
	after := &corev1.Pod{}
	eventually(t, "resized on the kubelet", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(&before), after); err != nil {
			return err
		}
		spec := sizeOf(after.Spec.Containers[0].Resources)
		if status := after.Status.ContainerStatuses[0].Resources; spec == asked || status == nil || sizeOf(*status) != spec {
			return fmt.Errorf("spec %v, status %v", spec, status)
		}
		return nil
	})
	assert.Equal(t, before.UID, after.UID)
	assert.Zero(t, after.Status.ContainerStatuses[0].RestartCount)
	// 100m and 100 MiB were used all the time: little is added to that, and less of it to memory than a small CPU.
	cpu, memory := after.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), after.Spec.Containers[0].Resources.Requests.Memory().Value()
	assert.GreaterOrEqual(t, cpu, int64(100))
	assert.Less(t, cpu, int64(250))
	assert.GreaterOrEqual(t, memory, int64(90*mebibyte))
	assert.Less(t, memory, int64(300*mebibyte))
	eventually(t, "kept after a clean watch", func() error {
		rec, err := recommendation(ctx, web)
		if err == nil && (len(rec.Status.Verified) != 1 || len(rec.Status.Records) != 0) {
			err = fmt.Errorf("kept %v, records %v", rec.Status.Verified, rec.Status.Records)
		}
		return err
	})

	source := &promSource{t: t}
	eventually(t, "the same explanation from the cluster and from a file", func() error {
		rec, err := recommendation(ctx, web)
		if err != nil {
			return err
		}
		samples, rows := source.csv(policy, rec.Spec.DataUntil.Time)
		if rows == 0 {
			// What was stored includes the pod's usage of a step that had not ended. What is stored next ends with a step.
			return fmt.Errorf("no step ends at %s: %w", rec.Spec.DataUntil, requeryUsage(ctx, policy, rec))
		}
		live, file := adaptiveSteps(explained(t, "deployment/web", "-n", "adaptive")), adaptiveSteps(source.explained(policy, samples, rec.Spec.DataUntil.Time))
		if diff := cmp.Diff(live, file); diff != "" {
			// The newest step was read before its last sample came: what is stored next has it.
			return fmt.Errorf("until %s: %s %w", rec.Spec.DataUntil, diff, requeryUsage(ctx, policy, rec))
		}
		require.Len(t, live, 6)
		t.Logf("%+v", live)
		return nil
	})
}

// adaptiveSteps are the steps of a target, without that towards it, which starts from another size.
func adaptiveSteps(c answers.ExplainedContainer) (steps []answers.Step) {
	for _, s := range c.Steps {
		if s.Name != "change" {
			steps = append(steps, s)
		}
	}
	return steps
}

// explained is what the plugin tells of the first container.
func explained(t *testing.T, args ...string) answers.ExplainedContainer {
	t.Helper()
	cmd := env.cluster.Command(t.Context(), env.plugin, append([]string{"explain", "-o", "json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var told answers.Explanation
	require.NoError(t, json.Unmarshal(out, &told))
	require.NotEmpty(t, told.Containers)
	return told.Containers[0]
}

// promSource writes what Prometheus knows of the workload into files.
type promSource struct{ t *testing.T }

func (p *promSource) explained(policy *v1alpha1.AttunePolicy, csv string, until time.Time) answers.ExplainedContainer {
	dir := p.t.TempDir()
	samples, file := filepath.Join(dir, "samples.csv"), filepath.Join(dir, "policy.yaml")
	require.NoError(p.t, os.WriteFile(samples, []byte(csv), 0o600))
	spec := policy.DeepCopy()
	spec.TypeMeta.APIVersion, spec.TypeMeta.Kind = v1alpha1.GroupVersion.String(), "AttunePolicy"
	text, err := json.Marshal(map[string]any{"apiVersion": spec.APIVersion, "kind": spec.Kind, "metadata": map[string]any{"name": spec.Name}, "spec": spec.Spec})
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(file, text, 0o600))
	return explained(p.t, "--usage", samples, "--policy", file, "--current", "cpu="+asked.cpu+",memory="+asked.memory,
		"--limits", "cpu="+asked.cpuLimit+",memory="+asked.memoryLimit, "--at", until.UTC().Format(time.RFC3339))
}

// csv has a row for each step: the highest of all pods, as the operator reads them. It returns the number of rows, too.
func (p *promSource) csv(policy *v1alpha1.AttunePolicy, until time.Time) (string, int) {
	server, err := prometheus.New(prometheus.Config{Address: cluster.PrometheusURL, Through: env.cluster.HTTPClient().Transport})
	require.NoError(p.t, err)
	defer server.Close()
	const step = 5 * time.Minute
	query := usage.Query{Namespaces: []string{policy.Namespace}, Start: until.Add(step - policy.Spec.MetricsSource.HistoryWindow.Duration.Duration), End: until, Step: step, RateWindow: time.Minute}
	type row struct{ cpu, memory float64 }
	rows := map[int64]*row{}
	of := func(at int64) *row {
		if rows[at] == nil {
			rows[at] = &row{-1, -1}
		}
		return rows[at]
	}
	_, err = server.Read(context.WithoutCancel(p.t.Context()), query, func(s usage.Series) {
		for _, sample := range s.CPU {
			of(sample.At).cpu = max(of(sample.At).cpu, sample.Value)
		}
		for _, sample := range s.Memory {
			of(sample.At).memory = max(of(sample.At).memory, sample.Value)
		}
	})
	require.NoError(p.t, err)
	text := "series_id,timestamp,cpu_cores,memory_bytes\n"
	field := func(v float64) string {
		if v < 0 {
			return ""
		}
		return fmt.Sprint(v)
	}
	for at := query.Start; !at.After(query.End); at = at.Add(step) {
		if r := rows[at.UnixMilli()]; r != nil {
			text += fmt.Sprintf("app,%d,%s,%s\n", at.Unix(), field(r.cpu), field(r.memory))
		}
	}
	return text, strings.Count(text, "\n") - 1
}
