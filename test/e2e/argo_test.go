package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
	"attune.io/attune/test/cluster"
)

var onArgo = flag.Bool("argo", false, "play Argo Rollouts before Argo's own controller")

// argoTest has a process and a cluster for itself where it is asked for.
const argoTest = "TestArgoRollouts"

// moreMemory is the request that the canary's workload is to have in the end.
var moreMemory = resource.MustParse("96Mi")

// rolledOutByArgo is its cluster. Argo's controller begins before the operator does, so that its kinds are there.
func rolledOutByArgo() installation {
	return installation{options: cluster.Options{Argo: true}, settings: embeddedSettings, before: func(ctx context.Context, c *cluster.Cluster) error {
		out, err := c.Command(ctx, "kubectl", "apply", "--server-side", "-f", c.Tools.ArgoCRDs()).CombinedOutput()
		if err != nil {
			return fmt.Errorf("the CRDs of Argo: %w\n%s", err, out)
		}
		return nil
	}}
}

// TestArgoRollouts: Rollouts of Argo's own controller are resized in place, which disturbs neither it nor them. While a canary
// waits for a person, its new pods are sized and running ones are left as they are; promoted, it ends as any other. A Rollout
// with the template of a Deployment is sized too.
func TestArgoRollouts(t *testing.T) {
	if !*onArgo {
		t.Skip("Argo's controller has to be built first: -argo asks for it (make test-argo)")
	}
	alone(t, argoRollouts)
}

func argoRollouts(t *testing.T) {
	ctx := t.Context()
	startArgo(t)
	namespace(ctx, t, "rolled", true)
	web := newDeployment("rolled", "web", 2, idle(wide))
	makeRollout(t, web, map[string]any{"template": asMap(t, web.Spec.Template)})
	parked := newDeployment("rolled", "parked", 0, idle(wide))
	createFor(t, parked)
	shared := newDeployment("rolled", "shared", 1, idle(wide))
	shared.Spec.Selector.MatchLabels = map[string]string{"app": "parked"}
	makeRollout(t, shared, map[string]any{"workloadRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "parked"}})
	before := slices.Concat(pods(ctx, t, web), pods(ctx, t, shared))
	require.Len(t, before, 3)
	for _, d := range []*appsv1.Deployment{web, shared} {
		policyFor(ctx, t, d, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
			s.TargetRef.Kind = v1alpha1.KindRollout
			soon(tight)(s)
		})
	}

	eventually(t, "resized in place", func() error {
		return allHave(slices.Concat(pods(ctx, t, web), pods(ctx, t, shared)), tight)
	})
	var uids []types.UID
	for _, pod := range slices.Concat(pods(ctx, t, web), pods(ctx, t, shared)) {
		uids = append(uids, pod.UID)
		assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
	}
	for _, pod := range before {
		assert.Contains(t, uids, pod.UID)
	}
	eventually(t, "both are kept, and healthy", func() error {
		for _, d := range []*appsv1.Deployment{web, shared} {
			rec, err := owner{d, v1alpha1.KindRollout, nil}.recommendation(ctx)
			if err != nil {
				return err
			}
			if len(rec.Status.Records) > 0 || len(rec.Status.Verified) == 0 {
				return fmt.Errorf("%s: records %v, kept %v", d.Name, rec.Status.Records, rec.Status.Verified)
			}
			if r := rolloutOf(t, d); r.Status.Phase != "Healthy" {
				return fmt.Errorf("status %+v", r.Status)
			}
		}
		return nil
	})

	canary(t, web)
}

// canary has one of two pods of a new template, and waits there for a person.
func canary(t *testing.T, web *appsv1.Deployment) {
	ctx := t.Context()
	policy := &v1alpha1.AttunePolicy{}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"round":"2"}}}}}`))
	require.NoError(t, env.client.Patch(ctx, rolloutOf(t, web), patch))
	eventually(t, "it waits with a new pod", func() error {
		r := rolloutOf(t, web)
		if r.Status.Phase != "Paused" || r.Status.CurrentPodHash == r.Status.StableRS || len(ofHash(pods(ctx, t, web), r.Status.CurrentPodHash)) != 1 {
			return fmt.Errorf("status %+v", r.Status)
		}
		return nil
	})
	newest := ofHash(pods(ctx, t, web), rolloutOf(t, web).Status.CurrentPodHash)
	assert.NoError(t, allHave(newest, tight), "the new pod was born with the size that was kept")
	// A new target while it waits.
	eventually(t, "another target", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(web), policy); err != nil {
			return err
		}
		policy.Spec.Memory.MinAllowed, policy.Spec.Memory.MaxAllowed = ptr.To(moreMemory), ptr.To(moreMemory)
		return env.client.Update(ctx, policy)
	})
	eventually(t, "running pods wait for the rollout", func() error {
		rec, err := owner{web, v1alpha1.KindRollout, nil}.recommendation(ctx)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionResizeBlocked)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != resize.ReasonRolloutInProgress || rec.Spec.Containers[0].Target.MemoryRequest.Cmp(moreMemory) != 0 {
			return fmt.Errorf("conditions %v, target %v", rec.Status.Conditions, rec.Spec.Containers[0].Target)
		}
		return nil
	})
	assert.NoError(t, allHave(pods(ctx, t, web), tight))

	out, err := env.cluster.Command(ctx, "kubectl", "patch", "rollout", web.Name, "--namespace", web.Namespace, "--subresource=status", "--type=merge", "--patch", `{"status":{"promoteFull":true}}`).CombinedOutput()
	require.NoError(t, err, "%s", out)
	eventually(t, "promoted, and resized to the new target", func() error {
		r := rolloutOf(t, web)
		all := pods(ctx, t, web)
		if r.Status.Phase != "Healthy" || r.Status.CurrentPodHash != r.Status.StableRS || len(all) != 2 || len(ofHash(all, r.Status.CurrentPodHash)) != 2 {
			return fmt.Errorf("status %+v, %d pods", r.Status, len(all))
		}
		for _, pod := range all {
			if got := pod.Spec.Containers[0].Resources.Requests.Memory(); got.Cmp(moreMemory) != 0 {
				return fmt.Errorf("%s has %s", pod.Name, got)
			}
		}
		return nil
	})
}

// startArgo starts Argo's controller in the cluster's network.
func startArgo(t *testing.T) {
	t.Helper()
	var log bytes.Buffer
	cmd := env.cluster.Command(t.Context(), env.cluster.Tools.ArgoController(), "--kubeconfig="+env.cluster.Kubeconfig, "--leader-elect=false")
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		endProgram(t, cmd, "argo", &log)
		if t.Failed() {
			_, _ = os.Stderr.Write(log.Bytes()[max(0, log.Len()-1<<14):])
		}
	})
}

// makeRollout makes one with canary steps, like a Deployment but for its template, and waits for its pods.
func makeRollout(t *testing.T, like *appsv1.Deployment, template map[string]any) {
	t.Helper()
	spec := map[string]any{
		"replicas": int64(*like.Spec.Replicas), "selector": asMap(t, like.Spec.Selector),
		"strategy": map[string]any{"canary": map[string]any{"steps": []any{map[string]any{"setWeight": int64(50)}, map[string]any{"pause": map[string]any{}}}}},
	}
	maps.Copy(spec, template)
	rollout := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	rollout.SetGroupVersionKind(workload.ArgoGroupVersion.WithKind("Rollout"))
	rollout.SetNamespace(like.Namespace)
	rollout.SetName(like.Name)
	require.NoError(t, env.client.Create(t.Context(), rollout))
	within(t, roomComes, "the Rollout "+like.Name+" healthy", func() error {
		ready := 0
		for _, pod := range pods(t.Context(), t, like) {
			if is(t, &pod, corev1.PodReady, "") == nil {
				ready++
			}
		}
		if r := rolloutOf(t, like); r.Status.Phase != "Healthy" || ready != int(*like.Spec.Replicas) {
			return fmt.Errorf("%d pods are ready, status %+v", ready, r.Status)
		}
		return nil
	})
}

// rolloutOf is the Rollout of a name, as the operator reads it.
func rolloutOf(t *testing.T, like *appsv1.Deployment) *workload.ArgoRollout {
	t.Helper()
	r := &workload.ArgoRollout{}
	require.NoError(t, env.client.Get(t.Context(), client.ObjectKeyFromObject(like), r))
	return r
}

// ofHash are the pods of one template.
func ofHash(all []corev1.Pod, hash string) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(all), func(p corev1.Pod) bool { return p.Labels[workload.ArgoHashLabel] != hash })
}

// asMap is a value as its JSON object.
func asMap(t *testing.T, of any) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(of)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}
