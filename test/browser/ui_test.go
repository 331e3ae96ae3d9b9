package browser

import (
	"bufio"
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clusters starts the program that serves pages of clusters that are made up, and returns their addresses by name.
func clusters(t *testing.T) map[string]string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pages")
	build := exec.Command("go", "build", "-o", program, "./cmd/pages")
	build.Dir = ".."
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	serve := exec.Command(program)
	in, err := serve.StdinPipe()
	require.NoError(t, err)
	said, err := serve.StdoutPipe()
	require.NoError(t, err)
	serve.Stderr = os.Stderr
	require.NoError(t, serve.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = serve.Wait()
	})
	addresses := map[string]string{}
	lines := bufio.NewScanner(said)
	for len(addresses) < 5 && lines.Scan() {
		name, address, _ := strings.Cut(lines.Text(), " ")
		addresses[name] = address
	}
	require.Len(t, addresses, 5)
	return addresses
}

// uiPages are the pages that are looked at: cluster, path, and the name of the screenshot of docs/ui.md that it is.
var uiPages = []struct{ name, cluster, path, title string }{
	{"fleet", "small", "", "Fleet"},
	{"namespace", "small", "ns/shop", "Namespace shop"},
	{"workload", "small", "ns/shop/Deployment/web", "Deployment/web in shop"},
	{"paused", "small", "ns/shop/StatefulSet/db", "StatefulSet/db in shop"},
	{"young", "small", "ns/shop/DaemonSet/agent", "DaemonSet/agent in shop"},
	{"hostile", "hostile", "", "Fleet"},
	{"hostile-namespace", "hostile", "ns/shop", "Namespace shop"},
	{"hostile-workload", "hostile", "ns/shop/Deployment/web", "Deployment/web in shop"},
	{"empty", "empty", "", "Fleet"},
	{"sourceless", "sourceless", "", "Fleet"},
	{"sourceless-namespace", "sourceless", "ns/shop", "Namespace shop"},
	{"great", "great", "", "Fleet"},
	{"great-namespace", "great", "ns/team-000?page=2", "Namespace team-000"},
	{"missing", "small", "ns/shop/Deployment/none", "Not found"},
}

// TestUI: every page as readers see it: nothing but the page is asked for, its policy of content is broken by nothing, it
// fits a desktop and a phone, axe-core finds nothing, and the keyboard reaches every link and every region that scrolls.
func TestUI(t *testing.T) {
	addresses := clusters(t)
	b := started(t)
	for _, page := range uiPages {
		address := addresses[page.cluster] + page.path
		for _, view := range Views {
			t.Run(page.name+"-"+view.Name, func(t *testing.T) {
				s, err := b.Look(address, view)
				require.NoError(t, err)
				kept(t, "ui-"+page.name+"-"+view.Name, s.Picture)
				assert.Equal(t, []string{address}, s.Requests)
				assert.Empty(t, s.Complaints)
				assert.Empty(t, s.Violations)
				assert.Zero(t, max(0, s.Wide), "pixels that are beyond the window")
				assert.Equal(t, page.title+" – attune", s.Title)
				assert.Equal(t, 1, s.Headings)
				shown(t, page.name, view, s.Picture)
			})
		}
		t.Run(page.name+"-keyboard", func(t *testing.T) {
			reached, err := b.Tab(address, Views[2])
			require.NoError(t, err)
			assert.Empty(t, reached.Missed, "links and regions that Tab does not reach")
			assert.Equal(t, page.name != "empty", reached.Links+reached.Regions > 0)
		})
	}
}

// TestUILinks: whoever follows links from the first page comes to every workload.
func TestUILinks(t *testing.T) {
	addresses := clusters(t)
	b := started(t)
	base, err := url.Parse(addresses["small"])
	require.NoError(t, err)
	seen, queue := map[string]bool{}, []string{base.String()}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		links, err := b.Links(at)
		require.NoError(t, err)
		queue = append(queue, links...)
	}
	for _, path := range []string{"", "ns/shop", "ns/billing", "ns/legacy", "ns/shop/Deployment/web", "ns/shop/StatefulSet/db", "ns/shop/DaemonSet/agent", "ns/billing/CronJob/invoices"} {
		assert.True(t, seen[addresses["small"]+path], path)
	}
	assert.Len(t, seen, 8)
}

// inDocs are the views whose pictures of the fleet and of a workload are shown in docs/ui.md.
var inDocs = map[string]bool{"desktop": true, "desktop-dark": true, "phone": true}

// mostOfAPicture in docs, in bytes; mostHigh is how much of a page it shows, in pixels.
const mostOfAPicture, mostHigh = 200 << 10, 1800

// shown writes the pictures of docs/ui.md, where ATTUNE_SCREENSHOTS is set.
func shown(t *testing.T, page string, view View, picture []byte) {
	t.Helper()
	if page != "fleet" && page != "workload" || !inDocs[view.Name] {
		return
	}
	whole, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	part := whole.Bounds()
	part.Max.Y = min(part.Max.Y, mostHigh)
	cut, ok := whole.(interface {
		SubImage(image.Rectangle) image.Image
	})
	require.True(t, ok)
	var small bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, cut.SubImage(part)))
	assert.Less(t, small.Len(), mostOfAPicture)
	if os.Getenv("ATTUNE_SCREENSHOTS") == "" {
		return
	}
	folder := filepath.Join("..", "..", "docs", "screenshots")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("ui-%s-%s.png", page, view.Name)), small.Bytes(), 0o644))
}
