package browser

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clusters starts the tests of package ui as a program that serves pages of clusters that are made up, and returns their addresses
// by name.
func clusters(t *testing.T) map[string]string {
	t.Helper()
	os.Getenv("ATTUNE_INPUTS") // the digest of what the pages are made of, so that Go's test cache sees a change
	program := filepath.Join(t.TempDir(), "pages")
	build := exec.Command("go", "test", "-c", "-o", program, "./ui")
	build.Dir = filepath.Join("..", "..")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	serve := exec.Command(program, "-serve")
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
	for len(addresses) < 6 && lines.Scan() {
		name, address, _ := strings.Cut(lines.Text(), " ")
		addresses[name] = address
	}
	require.Len(t, addresses, 6)
	return addresses
}

// Names of the hostile and of the long cluster, as they are in an address and on a page.
var (
	harmRead = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	harm     = url.PathEscape(harmRead)
	longName = strings.Repeat("long-name-", 25)[:250]
)

// uiPages are the pages that are looked at: cluster, path, and the name of the screenshot of docs/ui.md that it is.
var uiPages = []struct{ name, cluster, path, title string }{
	{"fleet", "small", "", "Fleet"},
	{"namespace", "small", "ns/shop", "Namespace shop"},
	{"workload", "small", "ns/shop/Deployment/web", "Deployment/web in shop"},
	{"paused", "small", "ns/shop/StatefulSet/db", "StatefulSet/db in shop"},
	{"young", "small", "ns/shop/DaemonSet/agent", "DaemonSet/agent in shop"},
	{"nodes", "small", "nodes", "Nodes"},
	{"node", "small", "nodes/worker-1", "Node worker-1"},
	{"savings", "small", "savings", "Savings"},
	{"savings-namespace", "small", "savings/shop", "Savings of shop"},
	{"search", "small", "search?q=shop", "Search"},
	{"hostile", "hostile", "", "Fleet"},
	{"hostile-node", "hostile", "nodes/" + harm, "Node " + harmRead},
	{"hostile-savings", "hostile", "savings/shop", "Savings of shop"},
	{"hostile-search", "hostile", "search?q=" + harm, "Search"},
	{"long-workload", "long", "ns/shop/Deployment/" + longName, "Deployment/" + longName + " in shop"},
	{"long-node", "long", "nodes/" + longName, "Node " + longName},
	{"long-search", "long", "search?q=long", "Search"},
	{"hostile-namespace", "hostile", "ns/shop", "Namespace shop"},
	{"hostile-workload", "hostile", "ns/shop/Deployment/web", "Deployment/web in shop"},
	{"empty", "empty", "", "Fleet"},
	{"empty-nodes", "empty", "nodes", "Nodes"},
	{"empty-savings", "empty", "savings", "Savings"},
	{"sourceless-workload", "sourceless", "ns/shop/Deployment/web", "Deployment/web in shop"},
	{"sourceless", "sourceless", "", "Fleet"},
	{"sourceless-namespace", "sourceless", "ns/shop", "Namespace shop"},
	{"great", "great", "", "Fleet"},
	{"great-namespace", "great", "ns/team-000?page=2", "Namespace team-000"},
	{"great-nodes", "great", "nodes?page=2", "Nodes"},
	{"great-search", "great", "search?q=service&page=3", "Search"},
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
				savePicture(t, "ui-"+page.name+"-"+view.Name, s.Picture)
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
			assert.GreaterOrEqual(t, reached.Links, 4, "the pages of attune")
			assert.Equal(t, strings.Contains(page.path, "search"), reached.Fields > 0)
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
	for _, path := range []string{"", "nodes", "nodes/worker-1", "nodes/worker-2", "savings", "savings/shop", "savings/billing", "search", "ns/shop", "ns/billing", "ns/legacy", "ns/shop/Deployment/web", "ns/shop/StatefulSet/db", "ns/shop/DaemonSet/agent", "ns/billing/CronJob/invoices"} {
		assert.True(t, seen[addresses["small"]+path], path)
	}
	assert.Len(t, seen, 15)
}

// TestUISearch: whoever types a name and presses Enter finds the workload, whatever they type.
func TestUISearch(t *testing.T) {
	address := clusters(t)["small"]
	b := started(t)
	for typed, want := range map[string]string{"Daemon": "1 workload contains “Daemon” in NAMESPACE/KIND/NAME.", harmRead: "0 workloads contain “" + harmRead + "” in NAMESPACE/KIND/NAME."} {
		said, err := b.Type(address+"search", "#q", typed)
		require.NoError(t, err)
		assert.Contains(t, said, want)
	}
}

// inDocs are the pages whose pictures are shown in docs/ui.md.
var inDocs = map[string]bool{"fleet": true, "namespace": true, "workload": true, "nodes": true, "node": true, "savings": true, "savings-namespace": true, "search": true}

// mostOfAPicture in docs, in bytes; mostHigh is how much of a page it shows, in pixels.
const mostOfAPicture, mostHigh = 90 << 10, 2400

// shown writes the pictures of docs/ui.md, where ATTUNE_SCREENSHOTS is set. They have a palette, which text and lines hardly miss.
func shown(t *testing.T, page string, view View, picture []byte) {
	t.Helper()
	if !inDocs[page] {
		return
	}
	whole, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	part := whole.Bounds()
	part.Max.Y = min(part.Max.Y, mostHigh)
	var small bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(whole, part)))
	assert.Less(t, small.Len(), mostOfAPicture)
	if os.Getenv("ATTUNE_SCREENSHOTS") == "" {
		return
	}
	folder := filepath.Join("..", "..", "docs", "screenshots")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("ui-%s-%s.png", page, view.Name)), small.Bytes(), 0o644))
}

// mostColours of a picture, and how far they are from one another at least.
const mostColours, leastFar = 48, 24 * 24

// paletted is a part of a picture in its most frequent colours, bright ones before grey ones, each point in the nearest one.
func paletted(whole image.Image, part image.Rectangle) *image.Paletted {
	times := map[color.RGBA]int{}
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			times[color.RGBAModel.Convert(whole.At(x, y)).(color.RGBA)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(times), func(a, b color.RGBA) int {
		return cmp.Or(times[b]*(1+chroma(b))-times[a]*(1+chroma(a)), int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	palette := color.Palette{}
	for _, c := range colours {
		if len(palette) < mostColours && !slices.ContainsFunc(palette, func(o color.Color) bool { return far(c, o.(color.RGBA)) < leastFar }) {
			palette = append(palette, c)
		}
	}
	out, nearest := image.NewPaletted(part, palette), map[color.RGBA]uint8{}
	for c := range times {
		nearest[c] = uint8(palette.Index(c))
	}
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[color.RGBAModel.Convert(whole.At(x, y)).(color.RGBA)])
		}
	}
	return out
}

// chroma is 0 for grey.
func chroma(c color.RGBA) int { return int(max(c.R, c.G, c.B)) - int(min(c.R, c.G, c.B)) }

// far is the square of the distance of two colours.
func far(a, b color.RGBA) int {
	r, g, bl := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return r*r + g*g + bl*bl
}

// TestPicturesOfDocs: docs/ui.md shows every picture, and together they are small.
func TestPicturesOfDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/ui.md")
	require.NoError(t, err)
	bytes := int64(0)
	for page := range inDocs {
		for _, view := range Views {
			name := fmt.Sprintf("screenshots/ui-%s-%s.png", page, view.Name)
			assert.Contains(t, string(text), "("+name+")")
			file, err := os.Stat("../../docs/" + name)
			require.NoError(t, err)
			bytes += file.Size()
		}
	}
	assert.Less(t, bytes, int64(3<<20))
}
