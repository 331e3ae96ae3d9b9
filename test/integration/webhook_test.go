package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/webhook/validation"
)

// serveWebhook has the API server ask our webhook for the rest of the test, as the chart has it.
func serveWebhook(t *testing.T, sourceNamespaces ...string) {
	t.Helper()
	fail, none, exact := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Exact
	path := validation.Path
	options := envtest.WebhookInstallOptions{ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "attune"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validate.attune.io", FailurePolicy: &fail, SideEffects: &none, MatchPolicy: &exact, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "attune", Path: &path}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"attune.io"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"attunepolicies", "attuneclusterpolicies", "attunedefaults", "attunenamespacedefaults"}},
			}},
		}},
	}}}
	c := newClient(t)
	require.NoError(t, options.Install(rest.CopyConfig(server)))
	s := webhook.NewServer(webhook.Options{Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir})
	s.Register(validation.Path, validation.New(newScheme(t), c, policy.Operator{SourceNamespaces: sourceNamespaces, Steps: policy.DefaultSteps, RateWindow: policy.DefaultRateWindow}))

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	started := s.StartedChecker()
	require.Eventually(t, func() bool { return started(nil) == nil }, patience, 20*time.Millisecond, "the webhook does not answer")
	t.Cleanup(func() {
		assert.NoError(t, c.Delete(context.Background(), options.ValidatingWebhooks[0]))
		stop()
		assert.NoError(t, <-ended)
		assert.NoError(t, options.Cleanup())
	})
}

// TestWebhook: what CEL cannot say is said in the same way, also to kubectl apply --dry-run=server.
func TestWebhook(t *testing.T) {
	c := newClient(t)
	shop, bank := newNamespace(t, c), newNamespace(t, c)
	broken := policyWith(t, `updateStrategy: {schedule: {timezone: Mars}}`)
	broken.SetNamespace(shop)
	broken.SetName("broken")
	controllerutil.AddFinalizer(broken, v1alpha1.CleanupFinalizer)
	require.NoError(t, c.Create(t.Context(), broken), "before the webhook is there, nobody minds")

	// A stored value of any type does not keep the operator from reading the objects.
	for i, limits := range []string{`7`, `[{a: b}]`, `{ratio: {deep: [1]}}`} {
		stored := policyWith(t, `cpu: {limits: `+limits+`}`)
		stored.SetNamespace(shop)
		stored.SetName(fmt.Sprintf("limits-%d", i))
		require.NoError(t, c.Create(t.Context(), stored))
		typed := &v1alpha1.AttunePolicy{}
		raw, err := json.Marshal(stored.Object)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, typed))
		_, err = policy.Resolve(nil, nil, typed)
		assert.ErrorContains(t, err, "cpu.limits ")
		require.NoError(t, c.Delete(t.Context(), stored))
	}

	serveWebhook(t, bank)
	cluster := object(t, "AttuneDefaults", `{strategy: Node, memory: {minAllowed: 2Gi}}`)
	require.NoError(t, c.Create(t.Context(), cluster))
	t.Cleanup(func() { assert.NoError(t, c.Delete(context.Background(), cluster)) })

	const prefix = `admission webhook "validate.attune.io" denied the request: `
	for name, k := range map[string]struct {
		namespace, spec, want string
	}{
		"good":                  {shop, `updateStrategy: {type: Auto}`, ""},
		"time zone":             {shop, `updateStrategy: {schedule: {timezone: Mars}}`, prefix + "updateStrategy.schedule.timezone Mars is not a known time zone: use an IANA name, e.g. Europe/Berlin or UTC"},
		"mode and strategy":     {shop, `updateStrategy: {type: Canary}`, prefix + "updateStrategy.type Canary is not supported with strategy Node (from the AttuneDefaults): use Observe, Recommend, Initial or Auto, or strategy Workload"},
		"bounds across levels":  {shop, `memory: {maxAllowed: 1Gi}`, prefix + "memory.minAllowed 2Gi (from the AttuneDefaults) must be less than or equal to memory.maxAllowed 1Gi: set memory.minAllowed to 1Gi or less"},
		"metadata address":      {bank, `metricsSource: {prometheus: {address: "http://169.254.169.254"}}`, prefix + "metricsSource.prometheus.address http://169.254.169.254 points to endpoints of the node or of the operator: use a Service, e.g. http://prometheus.monitoring:9090"},
		"source not allowed":    {shop, `metricsSource: {prometheus: {address: "http://prometheus:9090"}}`, prefix + "metricsSource.prometheus http://prometheus:9090 is not allowed in namespace " + shop + ": leave it out to use the operator's source, or have an administrator add " + shop + " to usage.policySources.namespaces"},
		"source allowed":        {bank, `metricsSource: {prometheus: {address: "http://prometheus:9090"}}`, ""},
		"query":                 {bank, `sloGuardrails: [{name: up, query: "sum(up", threshold: "1", comparison: "<"}]`, prefix + `sloGuardrails[up].query sum(up is missing ): close the bracket, e.g. sum(rate(http_requests_total{code=~"5.."}[5m]))`},
		"CPU limits, a word":    {shop, `cpu: {limits: Keep}`, ""},
		"CPU limits, bounds":    {shop, `cpu: {limits: {ratio: "3", min: 500m, max: 4}}`, ""},
		"CPU limits, no word":   {shop, `cpu: {limits: None}`, prefix + `cpu.limits None must be Keep, Remove, or an object with ratio, min or max, e.g. {ratio: "3", max: "4"}`},
		"CPU limits, a typo":    {shop, `cpu: {limits: {rato: "3"}}`, prefix + `cpu.limits {"rato":"3"} must be Keep, Remove, or an object with ratio, min or max, e.g. {ratio: "3", max: "4"}`},
		"CPU limits left alone": {shop, `{cpu: {limits: Remove, controlledValues: RequestsOnly}}`, prefix + `cpu.limits Remove does not work with cpu.controlledValues RequestsOnly, which leaves limits unchanged: set cpu.limits to Keep, or cpu.controlledValues to RequestsAndLimits`},
		"CEL comes first":       {shop, `cpu: {overhead: "20%"}`, `spec.cpu.overhead: Invalid value: "20%": overhead must be a percentage from 0 to 1000 as a string without the sign, e.g. '20'`},
	} {
		t.Run(name, func(t *testing.T) {
			p := policyWith(t, k.spec)
			p.SetNamespace(k.namespace)
			err := c.Create(t.Context(), p, client.DryRunAll)
			if k.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, k.want)
			assert.True(t, apierrors.IsInvalid(err), err)
		})
	}
	t.Run("namespace defaults", func(t *testing.T) {
		d := object(t, "AttuneNamespaceDefaults", `updateStrategy: {type: OneShot}`)
		d.SetNamespace(shop)
		assert.ErrorContains(t, c.Create(t.Context(), d, client.DryRunAll), prefix+"updateStrategy.type OneShot (from the AttuneNamespaceDefaults) is not supported with strategy Node (from the AttuneDefaults)")
	})
	t.Run("a cause for programs", func(t *testing.T) {
		err := c.Create(t.Context(), policyWith(t, `updateStrategy: {schedule: {timezone: Mars}}`), client.DryRunAll)
		all := causes(t, err)
		require.Len(t, all, 1)
		assert.Equal(t, "spec.updateStrategy.schedule.timezone", all[0].Field)
	})
	t.Run("what was let in before is not stuck", func(t *testing.T) {
		stays := broken.DeepCopy()
		require.NoError(t, unstructured.SetNestedField(stays.Object, "Venus", "spec", "updateStrategy", "schedule", "timezone"))
		assert.ErrorContains(t, c.Update(t.Context(), stays), "Venus is not a known time zone")

		broken.SetLabels(map[string]string{"team": "shop"})
		require.NoError(t, c.Update(t.Context(), broken))
		require.NoError(t, unstructured.SetNestedField(broken.Object, "Recommend", "status", "mode"))
		require.NoError(t, c.Status().Update(t.Context(), broken))
		require.NoError(t, c.Delete(t.Context(), broken))
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(broken), broken))
		controllerutil.RemoveFinalizer(broken, v1alpha1.CleanupFinalizer)
		require.NoError(t, c.Update(t.Context(), broken))
		assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(broken), broken)))
	})
}
