package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/certs"
)

// rate of reviews, in each second.
const rate = 200

// hook tells the API server of a webhook for pods, in place of the one before.
func (s *site) hook(ctx context.Context, name string, port int, path string, authority []byte) error {
	if err := s.unhook(ctx); err != nil {
		return err
	}
	address, ignore, none, wait := fmt.Sprintf("https://localhost:%d%s", port, path), admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNone, int32(10)
	config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "load"}}
	config.Webhooks = []admissionregistrationv1.MutatingWebhook{{
		Name: name + ".load.attune.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &ignore, TimeoutSeconds: &wait,
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &address, CABundle: authority},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}},
	}}
	if err := s.client.Create(ctx, config); err != nil {
		return err
	}
	// The API server looks at webhooks once a second.
	return sleep(ctx, 3*time.Second)
}

func (s *site) unhook(ctx context.Context) error {
	config := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "load"}}
	return client.IgnoreNotFound(s.client.Delete(ctx, config))
}

// review asks for 200 reviews/s of a new pod: of the handler itself, and through the API server with no
// webhook, with one that does nothing, and with the operator's.
func (s *site) review(ctx context.Context, o options) error {
	pod, err := s.newPod(ctx)
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) error {
		return s.client.Create(ctx, pod.DeepCopy(), client.DryRunAll)
	}
	noop, port, authority, err := idle()
	if err != nil {
		return err
	}
	defer noop.Close()
	nothing, err := direct(pod, port, authority, `"allowed":true`)
	if err != nil {
		return err
	}
	attune, err := direct(pod, s.operator.port, s.operator.authority, `"patch"`)
	if err != nil {
		return err
	}
	p99 := map[string]time.Duration{}
	for _, way := range []struct {
		name string
		hook func() error
		ask  func(context.Context) error
	}{
		{"a handler that does nothing, alone", nil, nothing},
		{"attune's handler, alone", nil, attune},
		{"no webhook", func() error { return s.unhook(ctx) }, ask},
		{"a webhook that does nothing", func() error { return s.hook(ctx, "noop", port, "/", authority) }, ask},
		{"attune's webhook", func() error { return s.hook(ctx, "attune", s.operator.port, "/mutate-pod", s.operator.authority) }, ask},
	} {
		if way.hook != nil {
			if err := way.hook(); err != nil {
				return err
			}
		}
		before, err := s.operator.admissions(ctx)
		if err != nil {
			return err
		}
		took, failed := paced(ctx, o.reviews, way.ask)
		p99[way.name] = percentile(took, 0.99)
		after, err := s.operator.admissions(ctx)
		if err != nil {
			return err
		}
		say(way.name, "p50 %s, p99 %s of %d at %d/s; %d failed%s",
			percentile(took, 0.5), p99[way.name], len(took), rate, failed, within(before, after))
	}
	say("attune : nothing", "%.2f at p99, through the API server", float64(p99["attune's webhook"])/float64(max(1, p99["a webhook that does nothing"])))
	return nil
}

// paced asks at the rate, whether or not the answers come, and says how long each took.
func paced(ctx context.Context, d time.Duration, ask func(context.Context) error) (took []time.Duration, failed int) {
	var wait sync.WaitGroup
	var mutex sync.Mutex
	ticker := time.NewTicker(time.Second / rate)
	defer ticker.Stop()
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
		<-ticker.C
		wait.Go(func() {
			began := time.Now()
			err := ask(ctx)
			mutex.Lock()
			defer mutex.Unlock()
			took = append(took, time.Since(began))
			if err != nil {
				failed++
			}
		})
	}
	wait.Wait()
	return took, failed
}

// newPod is a pod like a running one, that is not there yet.
func (s *site) newPod(ctx context.Context) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := s.client.List(ctx, pods, client.InNamespace(s.parts[0].namespace), client.Limit(1)); err != nil {
		return nil, err
	}
	like := pods.Items[0]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: like.Namespace, GenerateName: like.OwnerReferences[0].Name + "-", Labels: like.Labels, OwnerReferences: like.OwnerReferences,
	}}
	template := deployment(like.Namespace, like.Labels["app"]).Spec.Template
	pod.Spec = template.Spec
	return pod, nil
}

// direct asks a webhook itself, as the API server does; its answer has to say something.
func direct(pod *corev1.Pod, port int, authority []byte, says string) (func(context.Context) error, error) {
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Namespace: pod.Namespace, Operation: admissionv1.Create,
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		return nil, err
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(authority)
	asking := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: rate}}
	address := fmt.Sprintf("https://localhost:%d/mutate-pod", port)
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := asking.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err == nil && !bytes.Contains(answer, []byte(says)) {
			err = fmt.Errorf("not %s: %s", says, answer)
		}
		return err
	}, nil
}

// idle is a webhook that allows everything and does nothing, and what its certificate is verified with.
func idle() (server *httptest.Server, port int, authority []byte, err error) {
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, review.Request.UID)
	}))
	issued, err := certs.Issue(time.Now(), certs.Replace, nil, []string{"localhost"})
	if err != nil {
		return nil, 0, nil, err
	}
	pair, err := tls.X509KeyPair(issued["tls.crt"], issued["tls.key"])
	if err != nil {
		return nil, 0, nil, err
	}
	server.EnableHTTP2, server.TLS = true, &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	return server, server.Listener.Addr().(*net.TCPAddr).Port, issued["ca.crt"], nil
}
