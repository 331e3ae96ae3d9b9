package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var onVPA = flag.Bool("vpa", false, "tell the stories of container runtimes that spoil resizes with the Vertical Pod Autoscaler")

// TestVPAWithHostileRuntimes tells the stories of TestHostileRuntimes with the Vertical Pod Autoscaler, and shows what became
// of the pods. Its updater and its admission controller are what they are by default; in its recommender's place the test
// writes the recommendations, so that it asks for the same amounts. What it does with them is told, not judged.
func TestVPAWithHostileRuntimes(t *testing.T) {
	if !*onVPA {
		t.Skip("the Vertical Pod Autoscaler has to be built first: -vpa asks for it (make test-faults-vpa)")
	}
	alone(t, spoiledVPA)
}

func spoiledVPA(t *testing.T) {
	startVPA(t)
	table := &faultTable{}
	t.Run("faults", func(t *testing.T) {
		for _, s := range spoiledStories() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				table.add(s.runWithVPA(t))
			})
		}
	})
	t.Log(table)
}

// startVPA installs its CRDs and starts its two programs in the cluster's network.
func startVPA(t *testing.T) {
	ctx := t.Context()
	tools := env.cluster.Tools
	out, err := env.cluster.Command(ctx, "kubectl", "apply", "--server-side", "-f", tools.VPACRDs()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	const address, port = "127.0.0.1", "18443"
	certificate, key, err := certutil.GenerateSelfSignedCertKey(address, []net.IP{net.ParseIP(address)}, nil)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	require.NoError(t, errors.Join(os.WriteFile(certFile, certificate, 0o600), os.WriteFile(keyFile, key, 0o600)))
	begin := func(program string, args ...string) {
		var log bytes.Buffer
		cmd := env.cluster.Command(ctx, program, append(args, "--kubeconfig="+env.cluster.Kubeconfig, "--v=4")...)
		cmd.Stdout, cmd.Stderr = &log, &log
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { endProgram(t, cmd, filepath.Base(program), &log) })
	}
	begin(tools.VPAAdmissionController(), "--register-by-url", "--webhook-address=https://"+address, "--webhook-port="+port, "--port="+port,
		"--tls-cert-file="+certFile, "--tls-private-key="+keyFile, "--client-ca-file="+certFile)
	begin(tools.VPAUpdater())
}

// endProgram ends a program of the Vertical Pod Autoscaler, and keeps what it said.
func endProgram(t *testing.T, cmd *exec.Cmd, name string, log *bytes.Buffer) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if artifacts := os.Getenv("ATTUNE_ARTIFACTS"); artifacts != "" {
		assert.NoError(t, os.WriteFile(filepath.Join(artifacts, "vpa-"+name+".log"), log.Bytes(), 0o600))
	}
}

// seenFor is how long what became of a resize is waited for.
const seenFor = 10 * time.Minute

func (s spoiledStory) runWithVPA(t *testing.T) faultRow {
	ctx := t.Context()
	ns := s.namespace()
	namespace(ctx, t, ns, false)
	d, p := started(t, ns, 1, idle(s.from))
	require.NoError(t, env.cluster.SpoilResizes(p, "app", s.fault))
	recommendByVPA(t, d, s.to)
	within(t, seenFor, "it is tried", func() error {
		now := &corev1.Pod{}
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(p), now); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil || now.Generation > p.Generation {
			return err
		}
		return errors.New("the pod was not written to")
	})
	begun := time.Now()
	row := faultRow{fault: s.name, ended: "the spec asks for the new size, the container has another"}
	for row.took = 0; row.took < seenFor; row.took = time.Since(begun) {
		if now, err := becameOf(ctx, d, p, s.to); err == nil {
			row.ended, row.harmed = now.ended, now.harmed
			break
		}
		select {
		case <-ctx.Done():
			require.NoError(t, ctx.Err())
		case <-time.After(time.Second):
		}
	}
	return row
}

// becameOf says how a resize has ended: by another pod, or by the size that was asked for.
func becameOf(ctx context.Context, d *appsv1.Deployment, p *corev1.Pod, to size) (row faultRow, err error) {
	list := &corev1.PodList{}
	if err := env.client.List(ctx, list, client.InNamespace(d.Namespace)); err != nil {
		return row, err
	}
	for i := range list.Items {
		now := &list.Items[i]
		if len(now.Status.ContainerStatuses) == 0 || now.Status.ContainerStatuses[0].Resources == nil || !now.Status.ContainerStatuses[0].Ready {
			continue
		}
		status := now.Status.ContainerStatuses[0]
		spec, real := sizeOf(now.Spec.Containers[0].Resources), sizeOf(*status.Resources)
		switch {
		case now.UID != p.UID:
			return faultRow{ended: fmt.Sprintf("evicted; the new pod has %v", spec), harmed: 1}, nil
		case spec == to && real == to:
			return faultRow{ended: "done", harmed: int(status.RestartCount)}, nil
		}
	}
	return row, errors.New("not yet")
}

// recommendByVPA makes a VerticalPodAutoscaler and writes what its recommender would.
func recommendByVPA(t *testing.T, d *appsv1.Deployment, to size) {
	t.Helper()
	ctx := t.Context()
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": d.Name},
			"updatePolicy": map[string]any{"updateMode": "InPlaceOrRecreate", "minReplicas": int64(1)},
		},
	}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"})
	object.SetNamespace(d.Namespace)
	object.SetName(d.Name)
	eventually(t, "a VerticalPodAutoscaler", func() error { return client.IgnoreAlreadyExists(env.client.Create(ctx, object)) })
	amounts := map[string]any{"cpu": to.cpu, "memory": to.memory}
	status := map[string]any{
		"recommendation": map[string]any{"containerRecommendations": []any{
			map[string]any{"containerName": "app", "target": amounts, "lowerBound": amounts, "upperBound": amounts, "uncappedTarget": amounts},
		}},
		"conditions": []any{map[string]any{"type": "RecommendationProvided", "status": "True", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}},
	}
	eventually(t, "its recommendation", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		object.Object["status"] = status
		return env.client.Status().Update(ctx, object)
	})
}
