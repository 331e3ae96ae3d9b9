package connect

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
)

func TestAddressesOfServices(t *testing.T) {
	for address, want := range map[string]struct {
		name, namespace string
		port            int32
		inside          bool
	}{
		"http://prometheus.monitoring:9090":                   {"prometheus", "monitoring", 9090, true},
		"http://prometheus.monitoring.svc":                    {"prometheus", "monitoring", 80, true},
		"http://prometheus.monitoring.svc.cluster.local:9090": {"prometheus", "monitoring", 9090, true},
		"https://a.b":                         {"a", "b", 443, true},
		"http://localhost:9090":               {},
		"http://prometheus.shop.example:9090": {},
		"://":                                 {},
	} {
		name, namespace, port, inside := serviceOf(address)
		assert.Equal(t, want.inside, inside, address)
		assert.Equal(t, want.name, name, address)
		assert.Equal(t, want.namespace, namespace, address)
		assert.Equal(t, want.port, port, address)
	}
}

func TestPortsOfPods(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 9091}}}}}}
	for _, tc := range []struct {
		port corev1.ServicePort
		want int
	}{
		{corev1.ServicePort{Port: 80}, 80},
		{corev1.ServicePort{Port: 80, TargetPort: intstr.FromInt32(9090)}, 9090},
		{corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("web")}, 9091},
		{corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("other")}, 0},
	} {
		assert.Equal(t, tc.want, listens(pod, tc.port))
	}
}

// A source with credentials is rejected before any request.
func TestCredentialsAreNotSent(t *testing.T) {
	for name, source := range map[string]v1alpha1.PrometheusSource{
		"a tenant's header": {Address: "http://mimir.m:80", Headers: map[string]string{"X-Scope-OrgID": "1"}},
		"a user":            {Address: "http://mimir.m:80", BasicAuth: &v1alpha1.BasicAuth{Username: "x"}},
		"a token":           {Address: "http://mimir.m:80", BearerTokenSecret: &v1alpha1.SecretKey{Name: "x", Key: "y"}},
	} {
		_, err := Server(context.Background(), nil, nil, source, nil)
		assert.ErrorContains(t, err, "the server http://mimir.m:80 needs headers or credentials, which the plugin does not send", name)
	}
}

// A Service without a running pod is an error that names it. A missing Service may be another host's name.
func TestServicesWithoutPods(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "m", Name: "prom"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80}}}}
	pending := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "m", Name: "x", Labels: map[string]string{"a": "b"}}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	c := fake.NewClientBuilder().WithObjects(service, pending).Build()
	_, err := Server(context.Background(), c, nil, v1alpha1.PrometheusSource{Address: "http://prom.m"}, nil)
	assert.ErrorContains(t, err, "no running pod of Service prom in namespace m listens on port 80")
	_, err = Server(context.Background(), c, nil, v1alpha1.PrometheusSource{Address: "http://prom.example"}, nil)
	assert.NoError(t, err)
}

func TestOnlyGETIsForwarded(t *testing.T) {
	asked := ""
	f := forwarded{func(_ context.Context, namespace, pod string, _ int, path string) (Answer, error) {
		asked = namespace + "/" + pod + path
		return Answer{Status: http.StatusOK, Body: []byte("x")}, nil
	}, "m", "prom-0", 9090}
	for method, want := range map[string]int{http.MethodPost: http.StatusMethodNotAllowed, http.MethodGet: http.StatusOK} {
		asked = ""
		request, err := http.NewRequest(method, "http://prom.m/api?x=1", http.NoBody)
		require.NoError(t, err)
		response, err := f.RoundTrip(request)
		require.NoError(t, err)
		assert.Equal(t, want, response.StatusCode)
		assert.NoError(t, response.Body.Close())
		assert.Equal(t, want == http.StatusOK, asked == "m/prom-0/api?x=1")
	}
	request, err := http.NewRequest(http.MethodGet, "https://prom.m/", http.NoBody)
	require.NoError(t, err)
	_, err = f.RoundTrip(request) //nolint:bodyclose // there is none
	assert.ErrorContains(t, err, "without TLS")
}
