// Powertools for Java at the work of `benches/src/bin/end-to-end.rs`: same arguments, same line.
//
// `Peer SIDE ENDPOINT cold|starts|first|replay|in-progress|cached CALLERS WARM_UP CALLS`
//
// What the annotation `@Idempotent` weaves around a method is called here by hand.

import com.amazonaws.services.lambda.runtime.ClientContext;
import com.amazonaws.services.lambda.runtime.CognitoIdentity;
import com.amazonaws.services.lambda.runtime.Context;
import com.amazonaws.services.lambda.runtime.LambdaLogger;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.aspectj.lang.ProceedingJoinPoint;
import org.aspectj.lang.Signature;
import org.aspectj.lang.reflect.MethodSignature;
import org.aspectj.lang.reflect.SourceLocation;
import org.aspectj.runtime.internal.AroundClosure;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeDefinition;
import software.amazon.awssdk.services.dynamodb.model.BillingMode;
import software.amazon.awssdk.services.dynamodb.model.KeySchemaElement;
import software.amazon.awssdk.services.dynamodb.model.KeyType;
import software.amazon.awssdk.services.dynamodb.model.ResourceInUseException;
import software.amazon.awssdk.services.dynamodb.model.ScalarAttributeType;
import software.amazon.lambda.powertools.idempotency.Idempotency;
import software.amazon.lambda.powertools.idempotency.IdempotencyConfig;
import software.amazon.lambda.powertools.idempotency.exceptions.IdempotencyAlreadyInProgressException;
import software.amazon.lambda.powertools.idempotency.internal.IdempotencyHandler;
import software.amazon.lambda.powertools.idempotency.persistence.DynamoDBPersistenceStore;

public final class Peer {
  private static final String TABLE = "powertools-java";
  private static final int KEYS = 16;
  private static final int LATER = 9;
  private static final int HOUR_MS = 3_600_000;
  private static final String ANSWER = "an answer of some forty bytes, no more, ok";

  private final String kind;
  private final int callers;
  private final String run;
  private final DynamoDbClient client;
  private final DynamoDBPersistenceStore store;
  private final IdempotencyConfig config;
  private final Context context = new HalfAMinute();

  private Peer(String[] args) {
    kind = args[2];
    callers = Integer.parseInt(args[3]);
    run = args[0] + "-" + ProcessHandle.current().pid();
    client =
        DynamoDbClient.builder()
            .endpointOverride(URI.create(args[1]))
            .region(Region.US_EAST_1)
            .credentialsProvider(
                StaticCredentialsProvider.create(AwsBasicCredentials.create("local", "local")))
            .httpClient(UrlConnectionHttpClient.create())
            .build();
    store = DynamoDBPersistenceStore.builder().withTableName(TABLE).withDynamoDbClient(client).build();
    config =
        IdempotencyConfig.builder()
            .withEventKeyJMESPath("id")
            .withUseLocalCache(kind.equals("cached"))
            .build();
    Idempotency.config().withPersistenceStore(store).withConfig(config).configure();
  }

  public static void main(String[] args) throws Exception {
    Peer peer = new Peer(args);
    if (peer.kind.equals("cold")) {
      peer.call(0);
      return;
    }
    if (peer.kind.equals("starts")) {
      peer.starts();
      return;
    }
    int warmUp = Integer.parseInt(args[4]);
    int calls = Integer.parseInt(args[5]);
    peer.prepare();
    peer.work(0, warmUp);
    var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long cpu = system.getProcessCpuTime();
    long start = System.nanoTime();
    long[] latencies = peer.work(peer.callers * warmUp, calls);
    long took = System.nanoTime() - start;
    cpu = system.getProcessCpuTime() - cpu;
    Arrays.sort(latencies);
    int made = latencies.length;
    System.out.printf(
        "{\"p50_us\": %f, \"p99_us\": %f, \"per_second\": %f, \"cpu_us\": %f, \"rss_kb\": %d}%n",
        latencies[(made - 1) / 2] / 1e3,
        latencies[(made - 1) * 99 / 100] / 1e3,
        made * 1e9 / took,
        cpu / 1e3 / made,
        rssKb());
  }

  private String key(int n) {
    return run + "-" + (List.of("cold", "starts", "first").contains(kind) ? n : n % KEYS);
  }

  private static JsonNode order(String key) {
    return JsonNodeFactory.instance.objectNode().put("id", key);
  }

  private String pay(String key) throws Throwable {
    Pay pay = new Pay();
    Object answer = new IdempotencyHandler(pay, "pay", order(key), context).handle();
    if (!ANSWER.equals(answer)) {
      throw new IllegalStateException("another answer: " + answer);
    }
    return pay.ran ? "first" : "replay";
  }

  private long call(int n) throws Exception {
    return call(
        n,
        switch (kind) {
          case "cold" -> "first";
          case "cached" -> "replay";
          default -> kind;
        });
  }

  private long call(int n, String expected) throws Exception {
    long start = System.nanoTime();
    String cameTo;
    try {
      cameTo = pay(key(n));
    } catch (IdempotencyAlreadyInProgressException atWork) {
      cameTo = "in-progress";
    } catch (Throwable error) {
      throw new IllegalStateException(error);
    }
    long took = System.nanoTime() - start;
    if (!cameTo.equals(expected)) {
      throw new IllegalStateException(cameTo + " and not " + expected);
    }
    return took;
  }

  /** When the process is ready, by the system's clock, and its first requests. */
  private void starts() throws Exception {
    long ready = System.currentTimeMillis();
    long first = call(0, "first");
    long[] later = new long[LATER];
    long[] replays = new long[LATER];
    for (int n = 0; n < LATER; n++) {
      later[n] = call(n + 1, "first");
      replays[n] = call(n + 1, "replay");
    }
    Arrays.sort(later);
    Arrays.sort(replays);
    System.out.printf(
        "{\"ready_at_us\": %d, \"first_us\": %f, \"later_us\": %f, \"replay_us\": %f}%n",
        ready * 1000, first / 1e3, later[LATER / 2] / 1e3, replays[LATER / 2] / 1e3);
  }

  private void prepare() throws Exception {
    try {
      client.createTable(
          table ->
              table
                  .tableName(TABLE)
                  .keySchema(
                      KeySchemaElement.builder().attributeName("id").keyType(KeyType.HASH).build())
                  .attributeDefinitions(
                      AttributeDefinition.builder()
                          .attributeName("id")
                          .attributeType(ScalarAttributeType.S)
                          .build())
                  .billingMode(BillingMode.PAY_PER_REQUEST));
    } catch (ResourceInUseException there) {
      // By an earlier round.
    }
    store.configure(config, "pay");
    for (int n = 0; n < KEYS; n++) {
      if (kind.equals("in-progress")) {
        store.saveInProgress(order(key(n)), Instant.now(), OptionalInt.of(HOUR_MS));
      } else if (!kind.equals("first")) {
        try {
          pay(key(n));
        } catch (Throwable error) {
          throw new IllegalStateException(error);
        }
      }
    }
  }

  /** Each caller makes its calls one after the other. */
  private long[] work(int first, int calls) throws Exception {
    List<Callable<long[]>> all = new ArrayList<>();
    for (int caller = 0; caller < callers; caller++) {
      int from = first + caller * calls;
      all.add(
          () -> {
            long[] latencies = new long[calls];
            for (int n = 0; n < calls; n++) {
              latencies[n] = call(from + n);
            }
            return latencies;
          });
    }
    if (callers == 1) {
      return all.get(0).call();
    }
    ExecutorService pool = Executors.newFixedThreadPool(callers);
    try {
      long[] latencies = new long[callers * calls];
      int at = 0;
      for (Future<long[]> one : pool.invokeAll(all)) {
        System.arraycopy(one.get(), 0, latencies, at, calls);
        at += calls;
      }
      return latencies;
    } finally {
      pool.shutdown();
    }
  }

  private static long rssKb() throws Exception {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) {
        return Long.parseLong(line.replaceAll("\\D", ""));
      }
    }
    throw new IllegalStateException("no VmRSS");
  }

  /** The annotated method, as the aspect sees it. */
  private static final class Pay implements ProceedingJoinPoint {
    private static final MethodSignature SIGNATURE = new ReturnsString();
    private boolean ran;

    @Override
    public Object proceed() {
      ran = true;
      return ANSWER;
    }

    @Override
    public Object proceed(Object[] args) {
      return proceed();
    }

    @Override
    public Object[] getArgs() {
      return new Object[0];
    }

    @Override
    public Signature getSignature() {
      return SIGNATURE;
    }

    @Override
    public void set$AroundClosure(AroundClosure closure) {}

    @Override
    public String toShortString() {
      return "pay";
    }

    @Override
    public String toLongString() {
      return "pay";
    }

    @Override
    public Object getThis() {
      return this;
    }

    @Override
    public Object getTarget() {
      return this;
    }

    @Override
    public SourceLocation getSourceLocation() {
      return null;
    }

    @Override
    public String getKind() {
      return METHOD_EXECUTION;
    }

    @Override
    public StaticPart getStaticPart() {
      return null;
    }
  }

  private static final class ReturnsString implements MethodSignature {
    @Override
    public Class<?> getReturnType() {
      return String.class;
    }

    @Override
    public Method getMethod() {
      return null;
    }

    @Override
    public Class<?>[] getParameterTypes() {
      return new Class<?>[0];
    }

    @Override
    public String[] getParameterNames() {
      return new String[0];
    }

    @Override
    public Class<?>[] getExceptionTypes() {
      return new Class<?>[0];
    }

    @Override
    public String toShortString() {
      return "pay";
    }

    @Override
    public String toLongString() {
      return "pay";
    }

    @Override
    public String getName() {
      return "pay";
    }

    @Override
    public int getModifiers() {
      return 0;
    }

    @Override
    public Class<?> getDeclaringType() {
      return Peer.class;
    }

    @Override
    public String getDeclaringTypeName() {
      return "Peer";
    }
  }

  private static final class HalfAMinute implements Context {
    @Override
    public int getRemainingTimeInMillis() {
      return 30_000;
    }

    @Override
    public String getAwsRequestId() {
      return "request";
    }

    @Override
    public String getLogGroupName() {
      return "group";
    }

    @Override
    public String getLogStreamName() {
      return "stream";
    }

    @Override
    public String getFunctionName() {
      return "pay";
    }

    @Override
    public String getFunctionVersion() {
      return "1";
    }

    @Override
    public String getInvokedFunctionArn() {
      return "arn";
    }

    @Override
    public CognitoIdentity getIdentity() {
      return null;
    }

    @Override
    public ClientContext getClientContext() {
      return null;
    }

    @Override
    public int getMemoryLimitInMB() {
      return 512;
    }

    @Override
    public LambdaLogger getLogger() {
      return null;
    }
  }
}
