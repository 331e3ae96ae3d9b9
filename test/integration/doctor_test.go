package integration

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/doctor"
	"attune.io/attune/internal/policy"
	"attune.io/attune/webhook/pod"
	"attune.io/attune/webhook/validation"
)

// The doctor reads everything from a real API server: definitions by their metadata, rights, and kinds that are not
// installed. Who has no right is told of every check that it is unknown.
func TestDoctorReadsARealAPIServer(t *testing.T) {
	c := newClient(t)
	scope := doctor.Scope{Namespace: newNamespace(t, c), Operator: newNamespace(t, c)}
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"attune.io/inject": "enabled"}}}`))
	require.NoError(t, c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scope.Namespace}}, label))
	p := newPlugin(t, scope.Namespace)

	levels := func(as ...string) map[string]doctor.Level {
		out, errOut, code := p.run(append(as, "doctor", "-o", "json", "--operator-namespace", scope.Operator)...)
		require.NotEqual(t, 1, code, errOut)
		var answer doctor.Answer
		require.NoError(t, json.Unmarshal([]byte(out), &answer))
		of := map[string]doctor.Level{}
		for _, r := range answer.Checks {
			t.Logf("%s %s: %s", r.Result, r.Check, r.Sentence)
			of[r.Check] = r.Result
		}
		return of
	}
	seen := levels()
	for check, want := range map[string]doctor.Level{
		"kubernetes": doctor.OK, "rights": doctor.OK, "operator": doctor.Problem, "policies": doctor.Warning, "usage": doctor.OK,
		"namespaces": doctor.Warning, "vpa": doctor.OK, "hpa": doctor.OK, "quota": doctor.OK,
	} {
		assert.Equal(t, want, seen[check], check)
	}
	assert.Equal(t, doctor.Warning, seen["crds"], "the tests' definitions were not made by the chart")
	for check, level := range levels("--as", "stranger", "--as-group", "system:authenticated") {
		switch check {
		case "kubernetes":
			assert.Equal(t, doctor.OK, level, check)
		case "vpa":
			assert.NotEqual(t, doctor.Warning, level, "ok where the kind is not there, else unknown")
		case "rights":
			assert.Equal(t, doctor.Warning, level, "everybody may ask for their rights")
		default:
			assert.Equal(t, doctor.Unknown, level, check)
		}
	}
}

// B12, B38: the doctor calls both webhooks through a real API server, with the chart's failure policies. A webhook that the
// API server cannot reach is a problem, also the one whose failures it ignores; a changed live selector is named. The API
// server stores no probe.
func TestDoctorCallsTheWebhooksThroughTheAPIServer(t *testing.T) {
	c := newClient(t)
	namespace, operator := newNamespace(t, c), newNamespace(t, c)
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"attune.io/inject": "enabled"}}}`))
	require.NoError(t, c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, label))
	options, stop := servePluginsWebhooks(t, c, namespace)
	p := newPlugin(t, namespace)
	of := func(check string) (levels []doctor.Level, said string) {
		out, errOut, code := p.run("doctor", "-o", "json", "--operator-namespace", operator)
		require.NotEqual(t, 1, code, errOut)
		var answer doctor.Answer
		require.NoError(t, json.Unmarshal([]byte(out), &answer))
		for _, r := range answer.Checks {
			if r.Check == check {
				levels, said = append(levels, r.Result), said+r.Sentence+"\n"
			}
		}
		t.Log(said)
		return levels, said
	}
	require.Eventually(t, func() bool {
		levels, _ := of("reachable")
		return slices.Equal(levels, []doctor.Level{doctor.OK})
	}, patience, time.Second, "the webhooks answer")
	levels, _ := of("selectors")
	assert.Equal(t, []doctor.Level{doctor.OK}, levels)

	stop()
	levels, said := of("reachable")
	assert.Equal(t, []doctor.Level{doctor.Problem, doctor.Problem}, levels)
	assert.Contains(t, said, `failed calling webhook "settings.attune.io"`)
	assert.Contains(t, said, "pods.attune.io did not answer a dry-run pod in namespace "+namespace)
	for _, list := range []client.ObjectList{&corev1.PodList{}, &v1alpha1.AttunePolicyList{}} {
		require.NoError(t, c.List(t.Context(), list, client.InNamespace(namespace)))
		assert.Zero(t, meta.LenList(list), "a probe is not stored")
	}

	live := options.MutatingWebhooks[0]
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(live), live))
	live.Webhooks[0].NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "attune.io/inject", Operator: metav1.LabelSelectorOpDoesNotExist}}
	require.NoError(t, c.Update(t.Context(), live))
	levels, said = of("selectors")
	assert.Equal(t, []doctor.Level{doctor.Warning}, levels)
	assert.Contains(t, said, "because of its expression attune.io/inject DoesNotExist")
}

// servePluginsWebhooks has the API server call both webhooks for one namespace, with the names and the failure policies of
// the chart, until stop is called.
func servePluginsWebhooks(t *testing.T, c client.Client, namespace string) (options envtest.WebhookInstallOptions, stop func()) {
	t.Helper()
	none, fail, ignore := admissionv1.SideEffectClassNone, admissionv1.Fail, admissionv1.Ignore
	at := func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: "attune", Path: &path}}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	rule := func(group, version, resource string) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}}}}
	}
	options = envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{
			TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"}, ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Webhooks: []admissionv1.MutatingWebhook{{Name: "pods.attune.io", FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
				TimeoutSeconds: ptr.To[int32](2), NamespaceSelector: selector, ClientConfig: at(pod.Path), Rules: rule("", "v1", "pods")}},
		}},
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
			TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"}, ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Webhooks: []admissionv1.ValidatingWebhook{{Name: "settings.attune.io", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
				TimeoutSeconds: ptr.To[int32](5), NamespaceSelector: selector, ClientConfig: at(validation.Path), Rules: rule("attune.io", "v1alpha1", "attunepolicies")}},
		}},
	}
	require.NoError(t, options.Install(rest.CopyConfig(server)))
	s := webhook.NewServer(webhook.Options{Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir})
	s.Register(pod.Path, &pod.Handler{Known: pod.NewIndex(), Metrics: pod.NewMetrics(prom.NewRegistry()), Clock: clock.RealClock{}})
	s.Register(validation.Path, validation.New(newScheme(t), c, policy.Operator{Steps: policy.DefaultSteps, RateWindow: policy.DefaultRateWindow}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(func() {
		assert.NoError(t, c.Delete(context.Background(), options.MutatingWebhooks[0]))
		assert.NoError(t, c.Delete(context.Background(), options.ValidatingWebhooks[0]))
		stop()
		assert.NoError(t, options.Cleanup())
	})
	return options, stop
}
