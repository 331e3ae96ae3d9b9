package integration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/webhook/pod"
	webhookserver "attune.io/attune/webhook/server"
)

// podWebhook is the chart's configuration of the pod webhook in an API server, and attune's server behind it.
type podWebhook struct {
	t       testing.TB
	c       client.Client
	options envtest.WebhookInstallOptions
	// manifest is the configuration that the chart rendered last, with the address of the server.
	manifest *admissionv1.MutatingWebhookConfiguration
	// stop stops the server; the configuration stays until the end of the test.
	stop func()
}

// servePods installs the chart's configuration with some values. Every workload of the index is sized.
func servePods(t testing.TB, c client.Client, values string, known pod.Known) *podWebhook {
	t.Helper()
	w, installed := &podWebhook{t: t, c: c, manifest: podConfiguration(t, values)}, podConfiguration(t, values)
	w.options.MutatingWebhooks = []*admissionv1.MutatingWebhookConfiguration{installed}
	require.NoError(t, w.options.Install(rest.CopyConfig(server)))
	w.manifest.Webhooks[0].ClientConfig = installed.Webhooks[0].ClientConfig
	pair, err := tls.LoadX509KeyPair(filepath.Join(w.options.LocalServingCertDir, "tls.crt"), filepath.Join(w.options.LocalServingCertDir, "tls.key"))
	require.NoError(t, err)
	s := webhookserver.New(webhookserver.Options{
		Port:           w.options.LocalServingPort,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil },
		Bytes:          64 << 20, Metrics: webhookserver.NewMetrics(prom.NewRegistry()),
	})
	s.Register(pod.Path, &pod.Handler{Known: known, Metrics: pod.NewMetrics(prom.NewRegistry()), Clock: clock.RealClock{}, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	started := s.StartedChecker()
	require.Eventually(t, func() bool { return started(nil) == nil }, patience, 20*time.Millisecond, "the webhook does not answer")
	stopped := false
	w.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			assert.NoError(t, <-ended)
		}
	}
	t.Cleanup(func() {
		assert.NoError(t, c.Delete(context.Background(), &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: w.manifest.Name}}))
		w.stop()
		assert.NoError(t, w.options.Cleanup())
	})
	return w
}

// podConfiguration is what the chart renders.
func podConfiguration(t testing.TB, values string) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	found := renderedWith(t, values+",certs.provider=self-signed", "MutatingWebhookConfiguration")
	require.Len(t, found, 1)
	out := &admissionv1.MutatingWebhookConfiguration{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(found[0].Object, out))
	return out
}

// upgrade changes the values as helm upgrade does: by a strategic merge of the last manifest, the new one, and the object.
func (w *podWebhook) upgrade(values string) {
	w.t.Helper()
	after := podConfiguration(w.t, values)
	after.Webhooks[0].ClientConfig = w.manifest.Webhooks[0].ClientConfig
	current := &admissionv1.MutatingWebhookConfiguration{}
	require.NoError(w.t, w.c.Get(w.t.Context(), client.ObjectKeyFromObject(after), current))
	var texts [][]byte
	for _, of := range []any{w.manifest, after, current} {
		text, err := json.Marshal(of)
		require.NoError(w.t, err)
		texts = append(texts, text)
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(after)
	require.NoError(w.t, err)
	patch, err := strategicpatch.CreateThreeWayMergePatch(texts[0], texts[1], texts[2], meta, true)
	require.NoError(w.t, err)
	require.NoError(w.t, w.c.Patch(w.t.Context(), current, client.RawPatch(types.StrategicMergePatchType, patch)))
	w.manifest = after
}

// ownedPod is a pod as a ReplicaSet's controller creates it for the Deployment web.
func ownedPod(namespace string) *corev1.Pod {
	const hash = "6d5f8c7b9d"
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, GenerateName: "web-" + hash + "-", Labels: map[string]string{"app": "web", "pod-template-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-" + hash, UID: "web", Controller: ptr.To(true)}},
	}}
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}}}}
	return p
}

// recommendedIn is a recommendation of 200m of CPU for the Deployment web of a namespace.
func recommendedIn(namespace string) *v1alpha1.AttuneRecommendation {
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployment-web"}}
	rec.Spec.Mode, rec.Spec.Workload = v1alpha1.UpdateInitial, v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	rec.Spec.Seed = &v1alpha1.Seed{ValidUntil: metav1.NewTime(time.Now().Add(time.Hour)), Revision: "1",
		Containers: []v1alpha1.ContainerSeed{{Name: "app", CPURequest: ptr.To(resource.MustParse("200m"))}}}
	return rec
}

// TestNamespacesOfThePodWebhook: every namespace has the same recommendation, so the selectors of the chart decide whose
// new pods are sized. They keep their meaning through upgrades of the release, also with watchNamespaces.
func TestNamespacesOfThePodWebhook(t *testing.T) {
	c := newClient(t)
	index := pod.NewIndex()
	labelled := map[string]string{"enabled": "enabled", "disabled": "disabled", "other": "true", "bare": "", "excluded": "enabled", "excluded-bare": ""}
	names := map[string]string{"kube-system": metav1.NamespaceSystem}
	for role, value := range labelled {
		names[role] = newNamespace(t, c)
		if value != "" {
			text := fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, v1alpha1.InjectLabel, value)
			require.NoError(t, c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names[role]}}, client.RawPatch(types.MergePatchType, []byte(text))))
		}
	}
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "attune-system"}}
	require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), own)))
	names["attune-system"] = own.Name
	for _, name := range names {
		index.Set(recommendedIn(name))
	}
	excluded := fmt.Sprintf("webhook.excludedNamespaces={%s,%s}", names["excluded"], names["excluded-bare"])
	const all, onlyLabelled = ",webhook.namespaces=AllButDisabled", ",webhook.namespaces=Labelled"
	watched := fmt.Sprintf(",watchNamespaces={%s,%s,%s}", names["bare"], names["disabled"], names["excluded"])

	sized := func() map[string]bool {
		out := map[string]bool{}
		for role, name := range names {
			p := ownedPod(name)
			require.NoError(t, c.Create(t.Context(), p, client.DryRunAll), role)
			if p.Spec.Containers[0].Resources.Requests.Cpu().String() == "200m" {
				out[role] = true
			}
		}
		return out
	}
	w := servePods(t, c, excluded, index)
	for i, step := range []struct {
		values string
		want   []string
	}{
		{excluded, []string{"enabled"}},
		{excluded + all, []string{"enabled", "other", "bare"}},
		{excluded + all + watched, []string{"bare"}},
		{excluded + onlyLabelled + watched, nil},
		{excluded + all, []string{"enabled", "other", "bare"}},
		{excluded + onlyLabelled, []string{"enabled"}},
	} {
		if i > 0 {
			w.upgrade(step.values)
		}
		var got map[string]bool
		assert.Eventually(t, func() bool {
			got = sized()
			return slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(slices.Values(step.want)))
		}, patience, 50*time.Millisecond, "%s: sizes %v", step.values, &got)
	}
}

// TestPodsWithoutTheWebhook: while nothing serves the webhook, the pods of every selected namespace are created unchanged.
func TestPodsWithoutTheWebhook(t *testing.T) {
	c := newClient(t)
	namespace, index := newNamespace(t, c), pod.NewIndex()
	index.Set(recommendedIn(namespace))
	w := servePods(t, c, "webhook.namespaces=AllButDisabled", index)
	cpu := func() string {
		p := ownedPod(namespace)
		require.NoError(t, c.Create(t.Context(), p, client.DryRunAll))
		return p.Spec.Containers[0].Resources.Requests.Cpu().String()
	}
	require.Eventually(t, func() bool { return cpu() == "200m" }, patience, 20*time.Millisecond)
	w.stop()
	assert.Equal(t, "1", cpu(), "nothing listens")

	silent, err := net.Listen("tcp", net.JoinHostPort(w.options.LocalServingHost, strconv.Itoa(w.options.LocalServingPort)))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, silent.Close()) })
	assert.Equal(t, "1", cpu(), "nothing answers")
}

// TestPodsThatNeedTheWebhook: with webhook.failurePolicy Fail no pod of a labelled namespace is created unsized.
func TestPodsThatNeedTheWebhook(t *testing.T) {
	c := newClient(t)
	labelled, other, index := newNamespace(t, c), newNamespace(t, c), pod.NewIndex()
	require.NoError(t, c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: labelled}},
		client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, v1alpha1.InjectLabel, v1alpha1.InjectEnabled))))
	index.Set(recommendedIn(labelled))
	w := servePods(t, c, "webhook.failurePolicy=Fail", index)
	assert.Equal(t, "Fail", w.manifest.Annotations[v1alpha1.FailurePolicyAnnotation], "for kubectl attune doctor")
	create := func(namespace string) (string, error) {
		p := ownedPod(namespace)
		err := c.Create(t.Context(), p, client.DryRunAll)
		return p.Spec.Containers[0].Resources.Requests.Cpu().String(), err
	}
	require.Eventually(t, func() bool { cpu, err := create(labelled); return err == nil && cpu == "200m" }, patience, 20*time.Millisecond)
	w.stop()
	_, err := create(labelled)
	assert.ErrorContains(t, err, `failed calling webhook "pods.attune.io"`)
	_, err = create(other)
	assert.NoError(t, err)
}

// BenchmarkPodCreation measures what the webhook adds to the creation of a pod: docs/webhook.md has the figures.
func BenchmarkPodCreation(b *testing.B) {
	c := newClient(b)
	bare, seeded, off := newNamespace(b, c), newNamespace(b, c), newNamespace(b, c)
	label := []byte(`{"metadata": {"labels": {"attune.io/inject": "disabled"}}}`)
	require.NoError(b, c.Patch(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: off}}, client.RawPatch(types.MergePatchType, label)))
	index := pod.NewIndex()
	index.Set(recommendedIn(seeded))
	w := servePods(b, c, "webhook.namespaces=AllButDisabled", index)
	require.Eventually(b, func() bool {
		p := ownedPod(seeded)
		require.NoError(b, c.Create(b.Context(), p, client.DryRunAll))
		return p.Spec.Containers[0].Resources.Requests.Cpu().String() == "200m"
	}, patience, 20*time.Millisecond)

	create := func(namespace string) func(b *testing.B) {
		return func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if err := c.Create(b.Context(), ownedPod(namespace)); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
		}
	}
	b.Run("not selected", create(off))
	b.Run("nothing recommended", create(bare))
	b.Run("sized", create(seeded))
	w.stop()
	b.Run("refused", create(bare))
	silent, err := net.Listen("tcp", net.JoinHostPort(w.options.LocalServingHost, strconv.Itoa(w.options.LocalServingPort)))
	require.NoError(b, err)
	defer func() { _ = silent.Close() }()
	b.Run("silent", create(bare))
}
